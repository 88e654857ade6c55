"""What a run leaves to its release's defaults, and its project has otherwise: a remark, or the run's value."""

from pathlib import Path
from typing import Any

from extractor.importers.runs.report import remark_on_defaults
from extractor.importers.runs.unsupported_keys import KEPT, Remark
from extractor.values.configtree import flatten, resolve
from tests.importers.conftest import imported, put
from tests.releases import NEWEST

RELEASE = {
    "rollout": {"n": 1, "bucket": 2048},
    "critic": {"rollout_n": "${oc.select:rollout.n,1}", "size": "${rollout.n}"},
    "data": {"seed": 1},
}


def found(run: dict[str, Any], stated: dict[str, Any], project: dict[str, Any], said: list[Remark]) -> list[Any]:
    release = flatten(resolve(RELEASE))
    return [
        (item.key, item.value, item.what)
        for item in remark_on_defaults(run, stated, project, release, (lambda key: None, lambda key: None), said)
    ]


def test_a_default_or_statement_that_differs_is_said_once() -> None:
    run = {"rollout.n": 1, "rollout.bucket": 512, "data.seed": None, "only.then": 3, "class._target_": "a.B"}
    assert found(run, {}, {"data.seed": 42}, []) == [("rollout.bucket", 512, KEPT), ("data.seed", None, KEPT)]
    assert found({"data.seed": 7}, {"data.seed": 7}, {"data.seed": 42}, []) == [("data.seed", 7, "changed")]
    said = [Remark("data.seed", None, "lowered", "")]
    assert found({"data.seed": None}, {}, {"data.seed": 42}, said) == []


def test_of_two_names_the_one_that_is_not_said_does_not_count() -> None:
    old, new = "trainer.val_generations_to_log_to_wandb", "trainer.log_val_generations"
    assert found({old: 0, new: 4}, {new: 4}, {new: 4}, []) == []
    assert found({old: None, new: 4}, {}, {new: 4}, []) == []
    assert found({old: 0, new: 4}, {}, {new: 4}, []) == [(old, 0, KEPT)]
    assert found({old: 0, new: 4}, {new: 4}, {new: 5}, []) == [(old, 0, KEPT), (new, 4, "changed")]


SCRIPT = """
python3 -m verl.trainer.main_ppo data.train_files=$PWD/data/train.parquet data.val_files=$PWD/data/val.parquet \\
    actor_rollout_ref.model.path=a/b actor_rollout_ref.rollout.name=vllm algorithm.adv_estimator=grpo \\
    actor_rollout_ref.actor.fsdp_config.fsdp_size=8
"""


def test_a_key_that_follows_here_has_the_run_s_value(tmp_path: Path) -> None:
    """In a project the reference model's shards are as many as the policy's, and in verl all of them."""
    checkout = put(tmp_path / "checkout", {"examples/run.sh": SCRIPT, "verl/trainer/main_ppo.py": "", "setup.py": ""})
    made = imported(tmp_path / "p", checkout / "examples/run.sh", "--verl", NEWEST[-1]).settings
    assert made["actor_rollout_ref.actor.fsdp_config.fsdp_size"] == 8
    assert made["actor_rollout_ref.ref.fsdp_config.fsdp_size"] == -1
    # It is started where its program is found, and not where it lies.
    assert made["data.train_files"] == f"{tmp_path}/checkout/data/train.parquet"


OWN = """
defaults: [ppo_trainer, _self_]
reward:
  reward_manager: {name: dapo}
  reward_kwargs: {overlong_buffer_cfg: {enable: false, len: 0, penalty_factor: 0.0}}
"""


def test_what_the_command_says_counts_over_a_config_s_other_name(tmp_path: Path) -> None:
    """A script may be older than the config beside it."""
    said = " ".join(f"reward_model.overlong_buffer.{item}" for item in ("enable=True", "len=64", "penalty_factor=0.5"))
    launch = f"{SCRIPT.strip()} {said} --config-path . --config-name mine\n"
    script = put(tmp_path, {"mine.yaml": OWN, "run.sh": launch}) / "run.sh"
    made = imported(tmp_path / "p", script, "--verl", NEWEST[-1]).settings
    prefix = "reward.reward_kwargs.overlong_buffer_cfg."
    expected = {"enable": True, "len": 64, "penalty_factor": 0.5}
    assert {name: made[prefix + name] for name in expected} == expected
