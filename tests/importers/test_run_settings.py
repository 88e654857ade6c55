"""What becomes of a run's settings in a project, of those it states and of those it leaves to its release."""

from pathlib import Path
from typing import Any

from extractor.importers.runs.report import KEPT, Remark, remark_on_defaults
from extractor.values.configtree import flatten, resolve
from tests.importers.conftest import imported, put
from tests.releases import NEWEST

RELEASE = {"rollout": {"n": 1, "bucket": 2048}, "critic": {"size": "${rollout.n}"}, "data": {"seed": 1}}


def said_of(run: dict[str, Any], stated: dict[str, Any], project: dict[str, Any], said: list[Remark]) -> list[Any]:
    release = flatten(resolve(RELEASE))
    return [
        (item.key, item.value, item.what)
        for item in remark_on_defaults(run, stated, project, release, (lambda key: None, lambda key: None), said)
    ]


def test_a_default_or_statement_that_differs_is_said_once() -> None:
    run = {"rollout.n": 1, "rollout.bucket": 512, "data.seed": None, "only.then": 3, "class._target_": "a.B"}
    assert said_of(run, {}, {"data.seed": 42}, []) == [("rollout.bucket", 512, KEPT), ("data.seed", None, KEPT)]
    assert said_of({"data.seed": 7}, {"data.seed": 7}, {"data.seed": 42}, []) == [("data.seed", 7, "changed")]
    said = [Remark("data.seed", None, "lowered", "")]
    assert said_of({"data.seed": None}, {}, {"data.seed": 42}, said) == []


SCRIPT = """
python3 -m verl.trainer.main_ppo data.train_files=$PWD/data/train.parquet data.val_files=$PWD/data/val.parquet \\
    actor_rollout_ref.model.path=a/b actor_rollout_ref.rollout.name=vllm algorithm.adv_estimator=grpo \\
    actor_rollout_ref.actor.fsdp_config.fsdp_size=8 --config-path $PWD/conf --config-name mine \\
    trainer.save_freq=7 trainer.test_freq='${trainer.save_freq}' \\
    reward_model.overlong_buffer.enable=True reward_model.overlong_buffer.len=64
"""
OWN = "defaults: [ppo_trainer, _self_]\nreward:\n  reward_manager: {name: dapo}\n"
OWN += "  reward_kwargs: {overlong_buffer_cfg: {enable: false, len: 0, penalty_factor: 0.5}}\n"


def test_keys_that_follow_others_and_have_other_names_have_the_run_s_values(tmp_path: Path) -> None:
    """In a project the reference model's shards are as many as the policy's; a script may be older than its config."""
    files = {"examples/run.sh": SCRIPT, "conf/mine.yaml": OWN, "verl/trainer/main_ppo.py": "", "setup.py": ""}
    checkout = put(tmp_path / "checkout", files)
    project = imported(tmp_path / "p", checkout / "examples/run.sh", "--verl", NEWEST[-1])
    made = project.settings
    assert "test_freq: ${trainer.save_freq}" in project.recipe  # as the run says it
    overlong = "reward.reward_kwargs.overlong_buffer_cfg"
    expected = {
        "actor_rollout_ref.actor.fsdp_config.fsdp_size": 8,
        "actor_rollout_ref.ref.fsdp_config.fsdp_size": -1,
        # It is started where its program is found, and not where it lies.
        "data.train_files": f"{checkout}/data/train.parquet",
        f"{overlong}.enable": True,
        f"{overlong}.len": 64,
        f"{overlong}.penalty_factor": 0.5,
    }
    assert {key: made[key] for key in expected} == expected
