"""Runs of forks, of other programs than main_ppo, and from before 0.4.0: what they start from, what would not start."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from extractor.importers.config.keys import list_candidates
from extractor.importers.config.release import ReleaseConfig, VerlDefaults
from extractor.importers.runs import experiment, release_match, report, setting_repairs
from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.other_libraries import easyr1, trl
from extractor.importers.runs.report import Remark
from extractor.importers.runs.run import Run
from extractor.importers.runs.run_folders import RunFolders
from extractor.importers.runs.run_reader import read_run
from extractor.pipeline.source import Source
from extractor.values.configtree import flatten
from extractor.values.errors import UsageError
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import imported, put, vextract
from tests.releases import NEWEST, source_of

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


def test_what_a_fork_has_in_sections_that_take_anything_counts(tmp_path: Path) -> None:
    """A fork's own config has what its manager is made with, and its scripts set it without a `+`."""
    config = "defaults:\n  - _self_\nreward_model:\n  reward_kwargs:\n    threshold: 0.5\n    soft: false\n"
    files = {**FORK, "verl/trainer/config/ppo_trainer.yaml": config}
    run = run_of(tmp_path, f"{LAUNCH} reward_model.reward_kwargs.soft=True reward_model.other=1", files)
    release = "algorithm:\n  adv_estimator: gae\nreward_model:\n  enable: false\n"
    target = ReleaseConfig("0.0.0", {"ppo_trainer.yaml": release}, Source("0.0.0", "checkout", "", {}, ""))
    found = release_match.fit(run, target, (target,))
    assert found.config["reward_model"] == {"enable": False, "reward_kwargs": {"threshold": 0.5, "soft": True}}
    assert [problem.override.key for problem in found.problems] == ["reward_model.other"]


CUSTOM, OPTIM = "custom_reward_function", "actor_rollout_ref.actor.optim"
# Defaults of a run, the release's, and what its keys become where the release has other names, or two.
RENAMED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        {"reward_model.reward_manager": "dapo", f"{CUSTOM}.path": "x"},
        {"reward.reward_manager.name": "naive", f"reward.{CUSTOM}.path": None},
        {"reward.reward_manager.name": "dapo", f"reward.{CUSTOM}.path": "x"},
    ),
    (
        {f"{CUSTOM}.path": "x"},
        {f"{CUSTOM}.path": 1, f"reward.{CUSTOM}.path": "own"},
        {f"{CUSTOM}.path": "x", f"reward.{CUSTOM}.path": "x"},
    ),
    (
        {f"{CUSTOM}.path": None},
        {f"{CUSTOM}.path": 1, f"reward.{CUSTOM}.path": "own"},
        {f"{CUSTOM}.path": None, f"reward.{CUSTOM}.path": "own"},
    ),
    (
        {f"{OPTIM}.warmup_style": None, f"{OPTIM}.lr_scheduler_type": "cosine"},
        {f"{OPTIM}.warmup_style": "constant"},
        {f"{OPTIM}.warmup_style": "cosine"},
    ),
]


def test_names_that_the_release_has_otherwise_are_found() -> None:
    for defaults, config, expected in RENAMED:
        run = Run("run.sh", defaults=nest(defaults))
        assert flatten(release_match._apply_checkout_defaults(run, nest(config))) == expected


def nest(flat: dict[str, Any]) -> Any:
    config = OmegaConf.create()
    for key, value in flat.items():
        OmegaConf.update(config, key, value)
    return OmegaConf.to_container(config)


PROGRAMS = {
    "python -u train.py actor_rollout_ref.actor.optim.lr=1e-6 trainer.nnodes=1": "train.py",
    "python3 -m mine.start +actor_rollout_ref.actor.x=1": "mine.start",
    "uv run /usr/bin/python3.11 -m mine.start algorithm.adv_estimator=grpo": "mine.start",
    "ray job submit -- python3 -m mine.start algorithm.adv_estimator=grpo": "mine.start",
    '"${PYTHON_BIN}" -m mine.start algorithm.adv_estimator=grpo': "mine.start",
    "$PYTHON mine/train.py algorithm.adv_estimator=grpo": "mine/train.py",
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


PROGRAM = '@hydra.main(config_path="{place}", config_name="own")\ndef main(c): ...\n'


def test_a_config_may_start_from_verls_by_its_path(tmp_path: Path) -> None:
    """What verl's has is no setting of the run's: it is what the checkout has by default."""
    for package in ("", "_global_"):
        own = f"defaults: [../src/verl/trainer/config/ppo_trainer@{package}, _self_]\nalgorithm: {{lam: 0.5}}\n"
        files = {f"src/{path}": text for path, text in FORK.items()}
        files |= {"setup.py": "", "train.py": PROGRAM.format(place="conf"), "conf/own.yaml": own}
        run = run_of(tmp_path, "python train.py algorithm.adv_estimator=grpo", files)
        assert run.overlay == ({"algorithm": {"lam": 0.5}},)
        assert run.defaults["algorithm"] == {"gamma": 0.9, "of_the_fork": 3}


def test_a_config_of_ones_own_that_is_not_read(tmp_path: Path) -> None:
    for own, words, said in (
        ("defaults: [own]\n", "", "it starts from own as well, which is not read"),
        ("defaults: [ppo_trainer, rows@data]\n", "", "it starts from rows@data as well"),
        ("defaults: [tasks: two]\n", "", "it starts from {'tasks': 'two'} as well"),
        ("- 1\n", "", "no mapping at its top"),
        ("a: 1\n", "exps=[grpo,small]", "chooses a config of its own, which is not read"),
    ):
        files = {"setup.py": "", "conf/own.yaml": own, "conf/exps/small.yaml": "gamma: 0.7\n"}
        with pytest.raises(UsageError, match=re.escape(said)) as refused:
            run_of(tmp_path, f"{LAUNCH} --config-path conf --config-name own {words}", files)
        assert said.startswith("no") or "--cfg job --resolve" in str(refused.value.hint)


def test_a_placeholder_is_a_text_and_without_quotes_no_redirection(tmp_path: Path) -> None:
    text = f"""export KEY=<your_api_key>
BASE=/mnt/<your-project>/data
cat <in >out 2>/dev/null
{LAUNCH} data.train_files=$BASE/a.parquet a.model=<the model path> data.val_files='<your path>/a.parquet' \\
  a.lr=3e-6 trainer.experiment_name=run_<time-stamp> 'a.b=<x>' a.name={{your_name}} +x.y="<put it here>" > log.txt
"""
    run = run_of(tmp_path, text)
    assert [(item.mark + item.key, item.value) for item in run.overrides[1:]] == [
        ("data.train_files", "/mnt/<your-project>/data/a.parquet"),
        ("a.model", "<the model path>"),
        ("data.val_files", "<your path>/a.parquet"),
        ("a.lr", 3e-6),
        ("trainer.experiment_name", "run_<time-stamp>"),
        ("a.b", "<x>"),
        ("a.name", "{your_name}"),
        ("+x.y", "<put it here>"),
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


EASYR1 = """
data: {train_files: some/rows@train, rollout_batch_size: 64, format_prompt: a.jinja, max_prompt_length: 100}
algorithm: {adv_estimator: grpo, use_kl_loss: true, kl_penalty: low_var_kl, kl_coef: 0.01}
worker:
  actor: {global_batch_size: 16, loss_avg_mode: seq, loss_type: gspo, model: {model_path: a/b},
    fsdp: {torch_dtype: bf16}}
  rollout: {n: 5, val_override_config: {temperature: 0.6}}
  reward: {reward_function: "./math.py:compute_score"}
trainer: {save_limit: -1, val_freq: 3, find_last_checkpoint: false}
"""


def test_a_config_of_easyr1(tmp_path: Path) -> None:
    run = read_run(put(tmp_path, {"config.yaml": EASYR1}) / "config.yaml", {}, {})
    actor = "actor_rollout_ref.actor"
    assert {
        "algorithm.adv_estimator": "grpo",
        "data.train_batch_size": 64,
        f"{actor}.ppo_mini_batch_size": 16,
        f"{actor}.clip_ratio_high": 0.3,  # EasyR1's own default
        f"{actor}.use_kl_loss": True,
        f"{actor}.kl_loss_coef": 0.01,
        f"{actor}.kl_loss_type": "low_var_kl",
        "algorithm.use_kl_in_reward": False,
        f"{actor}.loss_agg_mode": "seq-mean-token-mean",
        f"{actor}.policy_loss.loss_mode": "gspo",
        "actor_rollout_ref.model.path": "a/b",
        "actor_rollout_ref.rollout.val_kwargs.do_sample": True,
        "trainer.max_actor_ckpt_to_keep": None,
        "trainer.test_freq": 3,
        "trainer.resume_mode": "disable",
    }.items() <= stated(run).items()
    assert [(item.key, item.what) for item in run.remarks] == [
        ("data.train_files", "to do"),
        ("worker.reward.reward_function", "to do"),
        ("data.format_prompt", "not carried over"),
        ("worker.actor.fsdp.torch_dtype", "dropped"),
    ]


def test_every_name_of_another_library_has_one_in_verl(verl: object) -> None:
    defaults = VerlDefaults.of(ReleaseConfig.of(source_of(NEWEST[-1])))
    both = [
        f"{section}.{name}" for section in ("actor_rollout_ref.actor", "critic") for name in easyr1._OF_BOTH.values()
    ]
    # Of these verl has no default, and its code reads them.
    read = {"algorithm.filter_groups.enable", "algorithm.filter_groups.max_num_gen_batches"}
    for name in {*easyr1._NAMES.values(), *trl._NAMES.values(), *both} - read:
        assert any(item in defaults for item in list_candidates(name, lambda key: None)), name


def test_a_launch_of_easyr1(tmp_path: Path) -> None:
    for words, in_loss, in_reward in (
        ("", True, False),
        ("algorithm.use_kl_loss=false", False, True),
        ("algorithm.disable_kl=true", False, False),
    ):
        text = f"N=3\npython3 -m verl.trainer.main config=own/config.yaml {words} worker.rollout.n=$N \\\n"
        text += """    worker.rollout.val_override_config='{"n":16,"temperature":1.0}'\n"""
        found = stated(run_of(tmp_path, text, {"own/config.yaml": EASYR1}))
        assert found["actor_rollout_ref.rollout.n"] == 3
        assert found["actor_rollout_ref.rollout.val_kwargs.n"] == 16
        assert found["actor_rollout_ref.actor.use_kl_loss"] is in_loss
        assert found["algorithm.use_kl_in_reward"] is in_reward
    with pytest.raises(UsageError, match="not here"):
        run_of(tmp_path, "python3 -m verl.trainer.main config=nowhere.yaml")


KL_LOSS = "actor_rollout_ref.actor.use_kl_loss"


EARLIER = {
    "actor_rollout_ref.actor.fsdp_config.grad_offload=False": True,
    "+trainer.val_before_train=False": True,
    f"+trainer.val_before_train=False {KL_LOSS}=True": False,
    "algorithm.kl_ctrl.kl_coef=0.001": True,
    f"algorithm.kl_ctrl.kl_coef=0.001 {KL_LOSS}=True": None,
    "algorithm.kl_ctrl.kl_coef=0.001 algorithm.use_kl_in_reward=True": None,
    "critic.model.use_rmpad=True trainer.val_before_train=False": None,
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


def test_a_checkout_says_when_a_run_is_from(tmp_path: Path) -> None:
    old = release_match.add_earlier_defaults(run_of(tmp_path, f"{LAUNCH} {KL_LOSS}=False", FORK))
    assert old.defaults["algorithm"] == {"use_kl_in_reward": True, "gamma": 0.9, "of_the_fork": 3}
    new = run_of(tmp_path, f"{LAUNCH} +trainer.val_before_train=False", {**FORK, "verl/version/version": "0.6.0"})
    assert release_match.add_earlier_defaults(new) is new


TYPES = b"""{"schema": {
    "trainer.total_training_steps": {"null_or": ["int"], "range": "at least 1"},
    "data.seed": {"null_or": ["int"]},
    "data.cache_dir": {"null_or": ["str"]}
}}
"""
TREE = Tree.of(
    [
        File("p/shipped.json", FileKind.TEMPLATE, TYPES),
        File("p/rewards/some.py", FileKind.VENDORED, b'@register("naive")\nclass A: ...\n'),
        File(
            "p/vendored/algorithms/core_algos.py", FileKind.VENDORED, b'class AdvantageEstimator:\n    GRPO = "grpo"\n'
        ),
    ]
)


def recipient(folder: Path, wanted: dict[str, Any], tree: Tree = TREE) -> TargetProject:
    return TargetProject(tree, "p", Source("0.0.0", "checkout", "", {}, ""), RunFolders((folder,)), wanted)


def settled(
    folder: Path, wanted: dict[str, Any], project: Any = None, stated: Any = None, said: Any = None, tree: Tree = TREE
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What is changed of settings, and the keys and kinds of remarks; a run says all of its settings, if not told."""
    run, given = wanted if stated is None else stated, wanted if said is None else said
    changed, remarks = setting_repairs.repair_settings(recipient(folder, wanted, tree), project or {}, run, given)
    return changed, [(item.key, item.what) for item in remarks]


MINI, SIZE = "actor_rollout_ref.actor.ppo_mini_batch_size", "data.train_batch_size"
MODEL, CRITIC = "actor_rollout_ref.model.path", "critic.model.path"
MANAGER, ESTIMATOR, FILTER = "reward.reward_manager.name", "algorithm.adv_estimator", "algorithm.filter_groups"
NAME, OFFLOAD = "trainer.experiment_name", "actor_rollout_ref.actor.fsdp_config.optimizer_offload"
LENGTH, LONGEST = "actor_rollout_ref.rollout.prompt_length", "data.max_prompt_length"
FOLLOWED, MAX = "${data.max_prompt_length}", "reward.reward_kwargs.max_resp_len"
SIZES, LENGTHS = {SIZE: 8, MINI: 8}, {LENGTH: 512, LONGEST: 512}
JUDGE, SWITCH = "reward.reward_model.model_path", "reward.reward_model.enable"
NO_JUDGE = {JUDGE: None, SWITCH: False}
# What a run has, its project's settings, which the run says (None: all), what is changed, and remarks.
Settled = tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None, dict[str, Any], list[tuple[str, str]]]
SETTLED: list[Settled] = [
    # A step takes at most one batch; an asynchronous trainer updates by mini-batches.
    ({MINI: 64}, SIZES, None, {MINI: 8}, [(MINI, "changed")]),
    ({SIZE: 64}, SIZES, None, {}, []),
    ({SIZE: 0, MINI: 32, "async_training.require_batches": 4}, SIZES, None, {SIZE: 128}, [(SIZE, "changed")]),
    # Names that nothing is registered as, and other words for the same.
    ({MANAGER: "prime"}, {}, None, {MANAGER: "naive"}, [(MANAGER, "changed")]),
    ({"reward_model.reward_manager": "own"}, {}, None, {}, [("reward_model.reward_manager", "to do")]),
    ({"reward_model.reward_manager": "naive"}, {}, None, {}, []),
    ({ESTIMATOR: "own"}, {}, None, {}, [(ESTIMATOR, "to do")]),
    ({ESTIMATOR: "grpo"}, {}, None, {}, []),
    ({MANAGER: None}, {}, {}, {MANAGER: "naive"}, [(MANAGER, "changed")]),
    (
        {f"{FILTER}.metric": "reward", f"{FILTER}.enable": True},
        {},
        {},
        {f"{FILTER}.metric": "seq_reward"},
        [(f"{FILTER}.metric", "changed")],
    ),
    # A critic that the run does not say starts from the policy's model; an empty path has to be supplied.
    ({CRITIC: "~/no/such"}, {CRITIC: "m"}, {}, {CRITIC: "${actor_rollout_ref.model.path}"}, [(CRITIC, "changed")]),
    ({CRITIC: "~/no/such"}, {CRITIC: "m"}, None, {}, [(CRITIC, "to do")]),
    ({MODEL: ""}, SIZES, None, {}, [(MODEL, "to do")]),
    # A reward model that is not used need not be there.
    ({JUDGE: "~/no/such"}, NO_JUDGE, {}, {JUDGE: None}, []),
    ({JUDGE: "~/no/such", SWITCH: True}, NO_JUDGE, {}, {}, [(JUDGE, "to do")]),
    # A name that is empty, a number where the project has true or false, no number where it has one.
    *(({NAME: name}, {NAME: "default"}, None, {NAME: "default"}, [(NAME, "changed")]) for name in ("", "  ", None)),
    ({OFFLOAD: 16}, {OFFLOAD: False}, None, {OFFLOAD: True}, [(OFFLOAD, "changed")]),
    (
        {MINI: None, MODEL: None, "critic.enable": None},
        {MINI: 16, MODEL: None, "critic.enable": True},
        {},
        {MINI: 16},
        [],
    ),
    ({MINI: None}, {MINI: 16}, None, {MINI: 16}, [(MINI, "changed")]),
    # The prompts of a rollout are as long as those of the data, and so is a response where the run does not say.
    ({LENGTH: 1024}, LENGTHS, {}, {LENGTH: FOLLOWED}, [(LENGTH, "changed")]),
    ({LENGTH: 1024, LONGEST: 1024}, LENGTHS, {}, {LENGTH: FOLLOWED}, []),
    ({}, LENGTHS, {}, {}, []),
    ({MAX: None}, SIZES, None, {MAX: "${data.max_response_length}"}, []),
    ({MAX: 8}, SIZES, None, {}, []),
]


def test_settings_that_a_project_cannot_have_as_they_are(tmp_path: Path) -> None:
    for wanted, project, stated, changed, remarks in SETTLED:
        said = stated if stated is None else ()
        assert settled(tmp_path, wanted, project, stated, said) == (changed, remarks), wanted
    assert settled(tmp_path, {}, LENGTHS, {LENGTH: 512}, ()) == ({}, [])
    # The run has the project's own number, so that nothing was set, and shorter prompts.
    shorter = settled(tmp_path, {LONGEST: 256}, LENGTHS, {LENGTH: 512, LONGEST: 256}, ())
    assert shorter == ({LENGTH: FOLLOWED}, [(LENGTH, "changed")])


def test_rejection_sampling_of_earlier_releases_is_to_do(tmp_path: Path) -> None:
    key = "algorithm.rollout_correction.rollout_rs"
    helper = File("p/training/rollout_corr_helper.py", FileKind.VENDORED, b'OPTIONS = {"seq_mean_k1"}\n')
    run = {key: "geometric", f"{key}_threshold": 2.0}
    assert settled(tmp_path, run, tree=Tree.of([*TREE, helper])) == ({}, [(key, "to do")])
    assert settled(tmp_path, run) == ({}, [])


def test_what_is_not_here_has_to_be_supplied(tmp_path: Path) -> None:
    put(tmp_path, {"here.parquet": "", "model/config.json": ""})
    wanted = {
        "data.train_files": ["here.parquet", "/nowhere/a.parquet"],
        "data.val_files": "data/b.parquet",
        MODEL: "model",
        CRITIC: "${actor_rollout_ref.model.path}",
        "reward_model.model.path": "somebody/something",
    }
    changed, remarks = setting_repairs.repair_settings(recipient(tmp_path, wanted), SIZES, wanted, wanted)
    files = [str(tmp_path / "here.parquet"), "/nowhere/a.parquet"]
    assert changed == {"data.train_files": files, MODEL: str(tmp_path / "model")}
    assert [(item.key, item.value, item.what) for item in remarks] == [
        ("data.train_files", "/nowhere/a.parquet", "to do"),
        ("data.val_files", "data/b.parquet", "to do"),
    ]
    assert all("python main.py" in item.why for item in remarks)


def test_a_file_of_data_that_a_command_prints_has_to_be_supplied(tmp_path: Path) -> None:
    script = 'F="[$(ls data/*.parquet | sed "s|^|\'|;s|$|\'|" | paste -sd, -)]"\n'
    script += "python3 -m verl.trainer.main_ppo data.train_files=$F trainer.save_freq=$(wc -l < x) data.shuffle=False\n"
    made = vextract("new", tmp_path / "one", "--from-verl-run", put(tmp_path, {"run.sh": script}) / "run.sh")
    settings = yaml.safe_load((tmp_path / "one/config/recipe/verl_run.yaml").read_text())
    assert settings["data"]["train_files"] == ""
    assert "save_freq" not in settings.get("trainer", {})
    why = "only known to a run of the script, or empty: python main.py"
    assert f"  data.train_files: {why}" in made.out + made.err
    assert f"| `data.train_files` |  | {why}" in (tmp_path / "one/from_run.md").read_text()


def test_what_only_a_forks_config_has_need_not_be_known() -> None:
    verls = {"trainer.save_freq": 0, "a.kwargs": {}, "a.b": 1}
    said = {"trainer.save_freq": 1, "trainer.mine": 1, "mine.x": 1, "a.kwargs.z": 1, "a.b.c": 1}
    assert experiment._select_verl_settings(said, verls).keys() == {"trainer.save_freq", "a.kwargs.z", "a.b.c"}


def test_the_file_names_every_kind_of_remark() -> None:
    remarks = [Remark(f"a.{number}", "x|y", what, "since\nthen") for number, what in enumerate(report.TITLES)]
    text = report.write_report("run.sh, written for verl 0.9.1", remarks, ["line 3: looked at"])
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
        "How it was read",
        *(title.capitalize() for title in report.TITLES.values()),
    ]
    assert text.count("| `x\\|y` | since then |") == len(remarks)


def test_a_key_from_between_two_releases_is_the_one_that_was_released(tmp_path: Path) -> None:
    target = ReleaseConfig.of(source_of(NEWEST[-1]))
    key = "distillation.teacher_models.teacher_model.model_path"
    run = run_of(tmp_path, f"{LAUNCH} {key.replace('teacher_models.', '')}=some/model")
    found = release_match.fit(run, target, (target,))
    assert found.problems == ()
    assert flatten(found.config)[key] == "some/model"


def test_a_script_that_ends_without_a_variable_asks_for_it(tmp_path: Path) -> None:
    text = f'ROOT=${{ROOT:-}}\nMODEL=${{MODEL:-${{ROOT:+$ROOT/m}}}}\n: "${{MODEL:?say it}}"\n{LAUNCH}'
    script = put(tmp_path, {"run.sh": f'{text} actor_rollout_ref.model.path="$MODEL"\n'}) / "run.sh"
    refused = vextract("new", tmp_path / "p", "--from-verl-run", script)
    assert (refused.code, "not known without running it: $MODEL" in refused.err) == (2, True)
    assert "path: /models/m" in imported(tmp_path / "p", script, "--set", "ROOT=/models").recipe


def test_of_a_config_of_its_own_a_run_says_what_is_not_verls_default(tmp_path: Path) -> None:
    own = {"data": {"image_key": "images", "video_key": "films"}, "critic": {"cliprange_value": 0.9}}
    own |= {"trainer": {"x_nsight_options": {"a": 1}}}
    files = {
        "train.py": PROGRAM.format(place="c"),
        "c/own.yaml": yaml.safe_dump({"defaults": ["ppo_trainer"], **own}),
        "run.sh": "python train.py algorithm.adv_estimator=grpo actor_rollout_ref.model.path=m",
    }
    said = imported(tmp_path / "p", put(tmp_path, files) / "run.sh", "--keep-unknown").read("from_run.md")
    assert "data.image_key" not in said
    assert "| `data.video_key` | `films` |" in said
    assert "| `critic.cliprange_value` | `0.9` | its estimator has no critic |" in said
    assert "| `trainer.x_nsight_options.a` | `1` | there is no Ray |" in said
