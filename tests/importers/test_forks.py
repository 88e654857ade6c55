"""Runs of forks, of other programs than main_ppo, and from before 0.4.0: what they start from, what would not start."""

import re
from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs import release_match, setting_repairs
from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.report import Remark
from extractor.importers.runs.run import Run
from extractor.importers.runs.run_folders import RunFolders
from extractor.importers.runs.run_reader import read_run
from extractor.pipeline.source import Source
from extractor.values.errors import UsageError
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import put

LAUNCH = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo"


def run_of(folder: Path, text: str, files: dict[str, str] | None = None) -> Run:
    return read_run(put(folder, {**(files or {}), "run.sh": text}) / "run.sh", {}, {})


def stated(run: Run) -> dict[str, Any]:
    return {item.key: item.value for item in run.overrides}


FORK = {
    "setup.py": "",
    "verl/version/version": "0.2.0.dev\n",
    "verl/trainer/main_ppo.py": "@hydra.main(config_path='config', config_name='ppo_trainer')\ndef main(c): ...\n",
    "verl/trainer/config/ppo_trainer.yaml": (
        "defaults:\n  - part@data: rows\n  - _self_\nalgorithm:\n  gamma: 0.9\n  of_the_fork: 3\n"
    ),
    "verl/trainer/config/part/rows.yaml": "max_prompt_length: 77\n",
}


def test_a_run_starts_from_the_config_of_its_own_checkout(tmp_path: Path) -> None:
    run = run_of(tmp_path, LAUNCH, FORK)
    assert run.version == "0.2.0.dev0"
    assert run.defaults == {"data": {"max_prompt_length": 77}, "algorithm": {"gamma": 0.9, "of_the_fork": 3}}
    config = {"data": {"max_prompt_length": 512, "seed": 1}, "algorithm": {"gamma": 1.0}}
    # What only the fork has is nobody's.
    expected = {"data": {"max_prompt_length": 77, "seed": 1}, "algorithm": {"gamma": 0.9}}
    assert release_match._apply_checkout_defaults(run, config) == expected
    broken = {**FORK, "verl/trainer/config/part/rows.yaml": "a: [\n", "verl/version/version": "next\n"}
    run = run_of(tmp_path, LAUNCH, broken)
    assert (run.version, run.defaults) == (None, {})
    old = release_match.add_earlier_defaults(run_of(tmp_path, f"{LAUNCH} {KL_LOSS}=False", FORK))
    assert old.defaults["algorithm"] == {"use_kl_in_reward": True, "gamma": 0.9, "of_the_fork": 3}


PROGRAMS = {
    "python -u train.py actor_rollout_ref.actor.optim.lr=1e-6 trainer.nnodes=1": "train.py",
    "ray job submit -- python3 -m mine.start algorithm.adv_estimator=grpo": "mine.start",
    '"${PYTHON_BIN}" -m mine.start algorithm.adv_estimator=grpo': "mine.start",
    "uv run mine/train.py algorithm.adv_estimator=grpo": "mine/train.py",
    "python -m recipe.one_step_off_policy.main_ppo algorithm.adv_estimator=grpo": "recipe.one_step_off_policy.main_ppo",
}


def test_a_program_of_another_name_with_settings_of_the_trainer(tmp_path: Path) -> None:
    for command, module in PROGRAMS.items():
        run = run_of(tmp_path, command)
        assert any(f"{module} is another trainer than main_ppo" in note for note in run.notes), command
        assert run.overrides
    plain = run_of(tmp_path, "python -m verl.trainer.main_ppo a.b=1")
    assert not any("another trainer" in note for note in plain.notes)


def test_a_config_of_ones_own_that_is_not_read(tmp_path: Path) -> None:
    for own, words, said in (
        ("defaults: [own]\n", "", "it starts from own as well, which is not read"),
        ("defaults: [ppo_trainer, rows@data]\n", "", "it starts from rows@data as well"),
        ("- 1\n", "", "no mapping at its top"),
        ("a: 1\n", "exps=[grpo,small]", "chooses a config, which is not read"),
    ):
        files = {"setup.py": "", "conf/own.yaml": own, "conf/exps/small.yaml": "gamma: 0.7\n"}
        with pytest.raises(UsageError, match=re.escape(said)) as refused:
            run_of(tmp_path, f"{LAUNCH} --config-path conf --config-name own {words}", files)
        assert said.startswith("no") or "--cfg job --resolve" in str(refused.value.hint)


def test_a_placeholder_is_a_text_and_without_quotes_no_redirection(tmp_path: Path) -> None:
    text = "export KEY=<your_api_key>\nBASE=/mnt/<your-project>/data\ncat <in >out 2>/dev/null\n"
    text += f"{LAUNCH} data.train_files=$BASE/a.parquet a.model=<the model path> 'a.b=<x>' +x.y={{your_name}} > log\n"
    run = run_of(tmp_path, text)
    assert [(item.mark + item.key, item.value) for item in run.overrides[1:]] == [
        ("data.train_files", "/mnt/<your-project>/data/a.parquet"),
        ("a.model", "<the model path>"),
        ("a.b", "<x>"),
        ("+x.y", "{your_name}"),
    ]


def test_what_hydra_writes_of_a_run(tmp_path: Path) -> None:
    config = "data:\n  max_prompt_length: 9\nalgorithm:\n  gamma: 0.5\n"
    place = put(tmp_path / "outputs/.hydra", {"config.yaml": config, "overrides.yaml": "- algorithm.gamma=0.5\n"})
    run = read_run(place.parent, {}, {})
    assert [(item.key, item.value) for item in run.overrides] == [("algorithm.gamma", 0.5)]
    assert run.defaults == {"data": {"max_prompt_length": 9}, "algorithm": {"gamma": 0.5}}
    assert run.is_whole
    assert read_run(place, {}, {}).overrides == run.overrides
    with pytest.raises(UsageError, match="no output of Hydra"):
        read_run(tmp_path, {}, {})


KL_LOSS = "actor_rollout_ref.actor.use_kl_loss"


EARLIER = {
    "+trainer.val_before_train=False": True,
    f"+trainer.val_before_train=False {KL_LOSS}=True": False,
    "algorithm.kl_ctrl.kl_coef=0.001": True,
    f"algorithm.kl_ctrl.kl_coef=0.001 {KL_LOSS}=True": None,
    "algorithm.kl_ctrl.kl_coef=0.001 algorithm.use_kl_in_reward=True": None,
    "trainer.total_epochs=1": None,
}


def test_runs_from_before_the_first_release_are_known(tmp_path: Path) -> None:
    for words, kl_in_reward in EARLIER.items():
        run = release_match.add_earlier_defaults(run_of(tmp_path, f"{LAUNCH} {words}"))
        if kl_in_reward is None:
            assert (run.defaults, run.notes) == ({}, ()), words
            continue
        assert run.defaults["algorithm"] == {"use_kl_in_reward": kl_in_reward}, words
        assert run.defaults["actor_rollout_ref"]["actor"]["entropy_coeff"] == 0.001
        assert "before 0.4.0" in run.notes[-1]


TYPES = b"""{"schema": {
    "trainer.total_training_steps": {"null_or": ["int"], "range": "at least 1"}
}}
"""
TREE = Tree.of(
    [
        File("p/shipped.json", FileKind.TEMPLATE, TYPES),
        File("p/training/rollout_corr_helper.py", FileKind.VENDORED, b'OPTIONS = {"seq_mean_k1"}\n'),
        File("p/rewards/some.py", FileKind.VENDORED, b'@register("naive")\nclass A: ...\n'),
        File(
            "p/vendored/algorithms/core_algos.py", FileKind.VENDORED, b'class AdvantageEstimator:\n    GRPO = "grpo"\n'
        ),
    ]
)


def repaired(
    folder: Path, wanted: dict[str, Any], project: dict[str, Any], run: dict[str, Any], given: Any
) -> tuple[dict[str, Any], list[Remark]]:
    source = Source("0.0.0", "checkout", "", {}, "")
    target = TargetProject(TREE, "p", source, RunFolders((folder,)), wanted)
    return setting_repairs.repair_settings(target, project, run, given)


MINI, SIZE = "actor_rollout_ref.actor.ppo_mini_batch_size", "data.train_batch_size"
MODEL, CRITIC = "actor_rollout_ref.model.path", "critic.model.path"
MANAGER, ESTIMATOR = "reward.reward_manager.name", "algorithm.adv_estimator"
NAME, OFFLOAD = "trainer.experiment_name", "actor_rollout_ref.actor.fsdp_config.optimizer_offload"
LENGTH, LONGEST = "actor_rollout_ref.rollout.prompt_length", "data.max_prompt_length"
FOLLOWED, MAX = "${data.max_prompt_length}", "reward.reward_kwargs.max_resp_len"
SIZES, LENGTHS = {SIZE: 8, MINI: 8}, {LENGTH: 512, LONGEST: 512}
JUDGE, SWITCH = "reward.reward_model.model_path", "reward.reward_model.enable"
REJECTED = "algorithm.rollout_correction.rollout_rs"
NO_JUDGE = {JUDGE: None, SWITCH: False}
# What a run has, its project's settings, which the run says (None: all), what is changed, and remarks.
Settled = tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None, dict[str, Any], list[tuple[str, str]]]
SETTLED: list[Settled] = [
    # A step takes at most one batch; an asynchronous trainer updates by mini-batches.
    ({MINI: 64}, SIZES, None, {MINI: 8}, [(MINI, "changed")]),
    ({SIZE: 0, MINI: 32, "async_training.require_batches": 4}, SIZES, None, {SIZE: 128}, [(SIZE, "changed")]),
    # Names that nothing is registered as, and other words for the same.
    ({MANAGER: "prime"}, {}, None, {MANAGER: "naive"}, [(MANAGER, "changed")]),
    ({"reward_model.reward_manager": "own"}, {}, None, {}, [("reward_model.reward_manager", "to do")]),
    ({ESTIMATOR: "own"}, {}, None, {}, [(ESTIMATOR, "to do")]),
    ({ESTIMATOR: "grpo"}, {}, None, {}, []),
    ({REJECTED: "geometric"}, {}, None, {}, [(REJECTED, "to do")]),
    ({MANAGER: None}, {}, {}, {MANAGER: "naive"}, [(MANAGER, "changed")]),
    # A critic that the run does not say starts from the policy's model; an empty path has to be supplied.
    ({CRITIC: "~/no/such"}, {CRITIC: "m"}, {}, {CRITIC: "${actor_rollout_ref.model.path}"}, [(CRITIC, "changed")]),
    ({CRITIC: "~/no/such"}, {CRITIC: "m"}, None, {}, [(CRITIC, "to do")]),
    ({MODEL: ""}, SIZES, None, {}, [(MODEL, "to do")]),
    # A reward model that is not used need not be there.
    ({JUDGE: "~/no/such"}, NO_JUDGE, {}, {JUDGE: None}, []),
    ({JUDGE: "~/no/such", SWITCH: True}, NO_JUDGE, {}, {}, [(JUDGE, "to do")]),
    # A name that is empty, a number where the project has true or false, no number where it has one.
    ({NAME: "  "}, {NAME: "default"}, None, {NAME: "default"}, [(NAME, "changed")]),
    ({OFFLOAD: 16}, {OFFLOAD: False}, None, {OFFLOAD: True}, [(OFFLOAD, "changed")]),
    ({MINI: None}, {MINI: 16}, None, {MINI: 16}, [(MINI, "changed")]),
    # The prompts of a rollout are as long as those of the data, and so is a response where the run does not say.
    ({LENGTH: 1024}, LENGTHS, {}, {LENGTH: FOLLOWED}, [(LENGTH, "changed")]),
    ({}, LENGTHS, {}, {}, []),
    ({MAX: None}, SIZES, None, {MAX: "${data.max_response_length}"}, []),
    ({MAX: 8}, SIZES, None, {}, []),
]


def test_settings_that_a_project_cannot_have_as_they_are(tmp_path: Path) -> None:
    for wanted, project, stated, changed, remarks in SETTLED:
        run, given = (wanted, wanted) if stated is None else (stated, ())
        found, said = repaired(tmp_path, wanted, project, run, given)
        assert (found, [(item.key, item.what) for item in said]) == (changed, remarks), wanted
