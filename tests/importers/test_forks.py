"""Runs of forks, of other programs than main_ppo, and from before 0.4.0: what they start from, what would not start."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extractor.importers.config.keys import list_candidates
from extractor.importers.config.release import ReleaseConfig, VerlDefaults
from extractor.importers.runs import convert, release_match, report, setting_repairs
from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.other_libraries import easyr1, trl
from extractor.importers.runs.places import RunFolders
from extractor.importers.runs.reading import read_run
from extractor.importers.runs.run import Run
from extractor.importers.runs.unsupported_keys import Remark
from extractor.pipeline.source import Source
from extractor.values.configtree import flatten
from extractor.values.errors import UsageError
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import vextract
from tests.releases import NEWEST, source_of

LAUNCH = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo"


def run_of(folder: Path, text: str, files: dict[str, str] | None = None) -> Run:
    for name, body in (files or {}).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(body)
    script = folder / "run.sh"
    script.write_text(text)
    return read_run(script, {}, {})


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
    assert release_match._apply_checkout_defaults(run, config) == {
        "data": {"max_prompt_length": 77, "seed": 1},
        "algorithm": {"gamma": 0.9},  # what only the fork has is nobody's
    }


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


def test_a_name_that_the_release_has_otherwise_is_found(tmp_path: Path) -> None:
    run = Run("run.sh", defaults={"reward_model": {"reward_manager": "dapo"}, "custom_reward_function": {"path": "x"}})
    config = {"reward": {"reward_manager": {"name": "naive"}, "custom_reward_function": {"path": None}}}
    assert release_match._apply_checkout_defaults(run, config)["reward"] == {
        "reward_manager": {"name": "dapo"},
        "custom_reward_function": {"path": "x"},
    }


@pytest.mark.parametrize(("path", "new"), [("x", "x"), (None, "own")])
def test_a_release_with_the_old_name_beside_the_new_one_has_both(path: str | None, new: str) -> None:
    run = Run("run.sh", defaults={"custom_reward_function": {"path": path}})
    config = {"custom_reward_function": {"path": 1}, "reward": {"custom_reward_function": {"path": "own"}}}
    found = release_match._apply_checkout_defaults(run, config)
    assert found["custom_reward_function"] == {"path": path}
    assert found["reward"]["custom_reward_function"] == {"path": new}


def test_an_old_name_left_empty_beside_the_new_one_has_its_value() -> None:
    actor = {"optim": {"warmup_style": None, "lr_scheduler_type": "cosine"}}
    run = Run("run.sh", defaults={"actor_rollout_ref": {"actor": actor}})
    config = {"actor_rollout_ref": {"actor": {"optim": {"warmup_style": "constant"}}}}
    assert flatten(release_match._apply_checkout_defaults(run, config)) == {
        "actor_rollout_ref.actor.optim.warmup_style": "cosine"
    }


def test_a_broken_config_beside_a_run_is_none(tmp_path: Path) -> None:
    broken = {**FORK, "verl/trainer/config/part/rows.yaml": "a: [\n", "verl/version/version": "next\n"}
    run = run_of(tmp_path, LAUNCH, broken)
    assert (run.version, run.defaults) == (None, {})


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("python -u train.py actor_rollout_ref.actor.optim.lr=1e-6 trainer.nnodes=1", "train.py"),
        ("python3 -m mine.start +actor_rollout_ref.actor.x=1", "mine.start"),
        ("uv run /usr/bin/python3.11 -m mine.start algorithm.adv_estimator=grpo", "mine.start"),
        ("ray job submit -- python3 -m mine.start algorithm.adv_estimator=grpo", "mine.start"),
        ('"${PYTHON_BIN}" -m mine.start algorithm.adv_estimator=grpo', "mine.start"),
        ("$PYTHON mine/train.py algorithm.adv_estimator=grpo", "mine/train.py"),
        ("uv run mine/train.py algorithm.adv_estimator=grpo", "mine/train.py"),
    ],
)
def test_a_program_of_another_name_with_settings_of_the_trainer(tmp_path: Path, command: str, module: str) -> None:
    run = run_of(tmp_path, command)
    assert any(f"{module} is another trainer than main_ppo" in note for note in run.notes)
    assert run.overrides


def test_a_config_in_a_package_beside_the_run(tmp_path: Path) -> None:
    files = {
        "setup.py": "",
        "train.py": '@hydra.main(config_path="pkg://mine.config", config_name="own")\ndef main(c): ...\n',
        "mine/config/own.yaml": "defaults: [ppo_trainer]\ndata:\n  max_prompt_length: 9\n",
    }
    run = run_of(tmp_path, "python train.py algorithm.adv_estimator=grpo", files)
    assert run.overlay == ({"data": {"max_prompt_length": 9}},)


PROGRAM = '@hydra.main(config_path="{place}", config_name="own")\ndef main(c): ...\n'


@pytest.mark.parametrize(
    "entry", ["../src/verl/trainer/config/ppo_trainer@", "../src/verl/trainer/config/ppo_trainer@_global_"]
)
def test_a_config_may_start_from_verls_by_its_path(tmp_path: Path, entry: str) -> None:
    """What verl's has is no setting of the run's: it is what the checkout has by default."""
    below = {f"src/{path}": text for path, text in FORK.items()}
    own = f"defaults: [{entry}, _self_]\nalgorithm: {{lam: 0.5}}\n"
    files = {**below, "setup.py": "", "train.py": PROGRAM.format(place="conf"), "conf/own.yaml": own}
    run = run_of(tmp_path, "python train.py algorithm.adv_estimator=grpo", files)
    assert run.overlay == ({"algorithm": {"lam": 0.5}},)
    assert run.defaults["algorithm"] == {"gamma": 0.9, "of_the_fork": 3}


@pytest.mark.parametrize(
    ("own", "words", "said"),
    [
        ("defaults: [own]\n", "", "it starts from own as well, which is not read"),
        ("defaults: [ppo_trainer, rows@data]\n", "", "it starts from rows@data as well"),
        ("defaults: [tasks: two]\n", "", "it starts from {'tasks': 'two'} as well"),
        ("- 1\n", "", "no mapping at its top"),
        ("a: 1\n", "exps=[grpo,small]", "chooses a config of its own, which is not read"),
    ],
)
def test_a_config_of_ones_own_that_is_not_read(tmp_path: Path, own: str, words: str, said: str) -> None:
    files = {"setup.py": "", "conf/own.yaml": own, "conf/exps/small.yaml": "gamma: 0.7\n"}
    with pytest.raises(UsageError, match=re.escape(said)) as refused:
        run_of(tmp_path, f"{LAUNCH} --config-path conf --config-name own {words}", files)
    assert said.startswith("no") or "--cfg job --resolve" in str(refused.value.hint)


def test_a_placeholder_is_a_text(tmp_path: Path) -> None:
    run = run_of(
        tmp_path, f"{LAUNCH} data.train_files='<your path>/a.parquet' +x.y=\"<put it here>\" a.b={{your_name}}"
    )
    assert [(item.mark, item.key, item.value) for item in run.overrides[1:]] == [
        ("", "data.train_files", "<your path>/a.parquet"),
        ("+", "x.y", "<put it here>"),
        ("", "a.b", "{your_name}"),
    ]


def test_a_placeholder_without_quotes_is_no_redirection(tmp_path: Path) -> None:
    text = f"""export KEY=<your_api_key>
BASE=/mnt/<your-project>/data
cat <in >out 2>/dev/null
{LAUNCH} data.train_files=$BASE/a.parquet a.model=<the model path> \\
  a.lr=3e-6 trainer.experiment_name=run_<time-stamp> 'a.b=<x>' > log.txt
"""
    run = run_of(tmp_path, text)
    assert [(item.key, item.value) for item in run.overrides[1:]] == [
        ("data.train_files", "/mnt/<your-project>/data/a.parquet"),
        ("a.model", "<the model path>"),
        ("a.lr", 3e-6),
        ("trainer.experiment_name", "run_<time-stamp>"),
        ("a.b", "<x>"),
    ]


def test_a_script_that_bash_cannot_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'run\.sh:1: what "a begins here is not closed') as refused:
        run_of(tmp_path, f'echo "a\n{LAUNCH}\n')
    assert "--cfg job --resolve" in (refused.value.hint or "")


def test_what_hydra_writes_of_a_run(tmp_path: Path) -> None:
    place = tmp_path / "outputs" / ".hydra"
    place.mkdir(parents=True)
    (place / "config.yaml").write_text("data:\n  max_prompt_length: 9\nalgorithm:\n  gamma: 0.5\n")
    (place / "overrides.yaml").write_text("- algorithm.gamma=0.5\n")
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


def translated(run: Run) -> dict[str, Any]:
    return {item.key: item.value for item in run.overrides}


def test_a_config_of_easyr1(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(EASYR1)
    run = read_run(file, {}, {})
    found = translated(run)
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
    }.items() <= found.items()
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


def test_a_chat_template_of_easyr1_s_is_the_project_s(tmp_path: Path) -> None:
    (tmp_path / "own.jinja").write_text("{{ messages[0].content }}")
    script = tmp_path / "run.sh"
    script.write_text("python3 -m verl.trainer.main data.override_chat_template=own.jinja worker.rollout.n=4\n")
    run = read_run(script, {}, {})
    found = {item.key: item.value for item in run.overrides}
    assert found["actor_rollout_ref.model.custom_chat_template"] == "{{ messages[0].content }}"
    assert "data.override_chat_template" not in {item.key for item in run.remarks}
    (tmp_path / "own.jinja").unlink()
    assert "data.override_chat_template" in {item.key for item in read_run(script, {}, {}).remarks}


@pytest.mark.parametrize(
    ("words", "in_loss", "in_reward"),
    [("", True, False), ("algorithm.use_kl_loss=false", False, True), ("algorithm.disable_kl=true", False, False)],
)
def test_a_launch_of_easyr1(tmp_path: Path, words: str, in_loss: bool, in_reward: bool) -> None:
    text = f"""N=3
python3 -m verl.trainer.main config=own/config.yaml {words} worker.rollout.n=$N \\
    worker.rollout.val_override_config='{{"n":16,"temperature":1.0}}'
"""
    run = run_of(tmp_path, text, {"own/config.yaml": EASYR1})
    found = translated(run)
    assert found["actor_rollout_ref.rollout.n"] == 3
    assert found["actor_rollout_ref.rollout.val_kwargs.n"] == 16
    assert found["actor_rollout_ref.actor.use_kl_loss"] is in_loss
    assert found["algorithm.use_kl_in_reward"] is in_reward
    with pytest.raises(UsageError, match="not here"):
        run_of(tmp_path, "python3 -m verl.trainer.main config=nowhere.yaml")


def test_a_program_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "nothing.py"
    script.write_text("print(1)\n")
    with pytest.raises(UsageError, match="programs and notebooks are not read"):
        read_run(script, {}, {})


KL_LOSS = "actor_rollout_ref.actor.use_kl_loss"


@pytest.mark.parametrize(
    ("words", "kl_in_reward"),
    [
        ("actor_rollout_ref.actor.fsdp_config.grad_offload=False", True),
        ("+trainer.val_before_train=False", True),
        (f"+trainer.val_before_train=False {KL_LOSS}=True", False),
        ("algorithm.kl_ctrl.kl_coef=0.001", True),
        (f"algorithm.kl_ctrl.kl_coef=0.001 {KL_LOSS}=True", None),
        ("algorithm.kl_ctrl.kl_coef=0.001 algorithm.use_kl_in_reward=True", None),
        ("critic.model.use_rmpad=True trainer.val_before_train=False", None),
        ("trainer.total_epochs=1", None),
    ],
)
def test_runs_from_before_the_first_release_are_known(tmp_path: Path, words: str, kl_in_reward: bool | None) -> None:
    run = release_match.add_earlier_defaults(run_of(tmp_path, f"{LAUNCH} {words}"))
    if kl_in_reward is None:
        assert (run.defaults, run.notes) == ({}, ())
        return
    assert run.defaults["algorithm"] == {"use_kl_in_reward": kl_in_reward}
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


def settled(wanted: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[Remark]]:
    project = {"data.train_batch_size": 8, "actor_rollout_ref.actor.ppo_mini_batch_size": 8}
    return setting_repairs.settle(recipient(folder, wanted), project, wanted, wanted)


def recipient(folder: Path, wanted: dict[str, Any], tree: Tree = TREE) -> TargetProject:
    return TargetProject(tree, "p", Source("0.0.0", "checkout", "", {}, ""), RunFolders((folder,)), wanted)


def test_a_step_takes_at_most_one_batch(tmp_path: Path) -> None:
    changed, remarks = settled({"actor_rollout_ref.actor.ppo_mini_batch_size": 64}, tmp_path)
    assert changed == {"actor_rollout_ref.actor.ppo_mini_batch_size": 8}
    assert [item.what for item in remarks] == ["changed"]
    assert settled({"data.train_batch_size": 64}, tmp_path) == ({}, [])


def test_an_asynchronous_trainer_updates_by_mini_batches(tmp_path: Path) -> None:
    mini = "actor_rollout_ref.actor.ppo_mini_batch_size"
    run = {"data.train_batch_size": 0, mini: 32, "async_training.require_batches": 4}
    changed, remarks = settled(run, tmp_path)
    assert changed == {"data.train_batch_size": 128}
    assert [item.what for item in remarks] == ["changed"]


LOSS = "actor_rollout_ref.actor.policy_loss.loss_mode"
ESTIMATOR = """
from helpers.ranks import centred
from verl.trainer.ppo import core_algos

@core_algos.register_adv_est("mine")
def compute_mine(token_level_rewards, response_mask, **kwargs):
    return centred(token_level_rewards), token_level_rewards
"""


@pytest.mark.parametrize(("lower", "bounds"), [(0.8, "0.5_1.25"), (None, "0.5_2")])
def test_rejection_sampling_of_earlier_releases(tmp_path: Path, lower: float | None, bounds: str) -> None:
    key = "algorithm.rollout_correction.rollout_rs"
    run = {key: "geometric", f"{key}_threshold": 2.0, f"{key}_threshold_lower": lower}
    later = Tree.of(
        [*TREE, File("p/training/rollout_corr_helper.py", FileKind.VENDORED, b'OPTIONS = {"seq_mean_k1"}\n')]
    )
    changed, remarks = setting_repairs.settle(recipient(tmp_path, run, later), {}, run, run)
    assert changed == {key: "seq_mean_k1", f"{key}_threshold": bounds}
    assert [item.what for item in remarks] == ["changed"]
    assert settled(run, tmp_path) == ({}, [])


@pytest.mark.parametrize(
    ("key", "name", "value", "what"),
    [
        ("reward.reward_manager.name", "prime", "naive", "changed"),
        ("reward_model.reward_manager", "of_a_recipe", None, "to do"),
        ("reward_model.reward_manager", "naive", None, None),
        ("algorithm.adv_estimator", "of_a_recipe", None, "to do"),
        ("algorithm.adv_estimator", "grpo", None, None),
    ],
)
def test_names_that_nothing_is_registered_as(
    tmp_path: Path, key: str, name: str, value: str | None, what: str | None
) -> None:
    changed, remarks = settled({key: name}, tmp_path)
    assert changed.get(key) == value
    assert [item.what for item in remarks] == ([] if what is None else [what])


def test_what_is_not_here_has_to_be_supplied(tmp_path: Path) -> None:
    (tmp_path / "here.parquet").touch()
    (tmp_path / "model").mkdir()
    changed, remarks = settled(
        {
            "data.train_files": ["here.parquet", "/nowhere/a.parquet"],
            "data.val_files": "data/b.parquet",
            "actor_rollout_ref.model.path": "model",
            "critic.model.path": "${actor_rollout_ref.model.path}",
            "reward_model.model.path": "somebody/something",
        },
        tmp_path,
    )
    here = str(tmp_path / "here.parquet")
    assert changed == {
        "data.train_files": [here, "/nowhere/a.parquet"],
        "actor_rollout_ref.model.path": str(tmp_path / "model"),
    }
    assert [(item.key, item.value, item.what) for item in remarks] == [
        ("data.train_files", "/nowhere/a.parquet", "to do"),
        ("data.val_files", "data/b.parquet", "to do"),
    ]


def test_a_critic_that_the_run_does_not_say_starts_from_the_policys_model(tmp_path: Path) -> None:
    critic = {"critic.model.path": "~/models/no-such-model"}
    changed, remarks = setting_repairs.settle(recipient(tmp_path, critic), {"critic.model.path": "m"}, {}, ())
    assert changed == {"critic.model.path": "${actor_rollout_ref.model.path}"}
    assert [item.what for item in remarks] == ["changed"]
    said = setting_repairs.settle(recipient(tmp_path, critic), {"critic.model.path": "m"}, {}, tuple(critic))
    assert said[0] == {}
    assert [item.what for item in said[1]] == ["to do"]


def test_a_path_that_is_empty_has_to_be_supplied(tmp_path: Path) -> None:
    changed, remarks = settled({"actor_rollout_ref.model.path": ""}, tmp_path)
    assert changed == {}
    assert [(item.what, "python main.py" in item.why) for item in remarks] == [("to do", True)]


def test_a_file_of_data_that_a_command_prints_has_to_be_supplied(tmp_path: Path) -> None:
    script = 'F="[$(ls data/*.parquet | sed "s|^|\'|;s|$|\'|" | paste -sd, -)]"\n'
    script += "python3 -m verl.trainer.main_ppo data.train_files=$F trainer.save_freq=$(wc -l < x) data.shuffle=False\n"
    (tmp_path / "run.sh").write_text(script)
    vextract("new", tmp_path / "one", "--from-verl-run", tmp_path / "run.sh")
    settings = yaml.safe_load((tmp_path / "one/config/recipe/verl_run.yaml").read_text())
    assert settings["data"]["train_files"] == ""
    assert "save_freq" not in settings.get("trainer", {})
    said = (tmp_path / "one/from_run.md").read_text()
    assert "| `data.train_files` |  | only known to a run of the script, or empty: python main.py" in said


def test_what_only_a_forks_config_has_need_not_be_known() -> None:
    verls = {"trainer.save_freq": 0, "a.kwargs": {}, "a.b": 1}
    said = {"trainer.save_freq": 1, "trainer.mine": 1, "mine.x": 1, "a.kwargs.z": 1, "a.b.c": 1}
    assert convert._select_verl_settings(said, verls).keys() == {"trainer.save_freq", "a.kwargs.z", "a.b.c"}


def test_how_long_a_response_may_be_follows_the_data_where_it_is_not_said(tmp_path: Path) -> None:
    key = "reward.reward_kwargs.max_resp_len"
    assert settled({key: None}, tmp_path) == ({key: "${data.max_response_length}"}, [])
    assert settled({key: 8}, tmp_path) == ({}, [])


@pytest.mark.parametrize("name", ["", "  ", None])
def test_a_run_without_a_name_has_the_projects(tmp_path: Path, name: str | None) -> None:
    key = "trainer.experiment_name"
    changed, remarks = setting_repairs.settle(recipient(tmp_path, {key: name}), {key: "default"}, {}, {key})
    assert changed[key] == "default"
    assert [(item.key, item.what) for item in remarks] == [(key, "changed")]


def test_a_number_where_the_project_has_true_or_false(tmp_path: Path) -> None:
    key = "actor_rollout_ref.actor.fsdp_config.optimizer_offload"
    changed, remarks = setting_repairs.settle(recipient(tmp_path, {key: 16}), {key: False}, {}, {key})
    assert changed[key] is True
    assert [item.what for item in remarks] == ["changed"]


@pytest.mark.parametrize("stated", [False, True])
def test_no_number_is_the_projects_number(tmp_path: Path, stated: bool) -> None:
    """verl's default may be null where its code never reads it, as the passes of a reward model that is a server's."""
    key, other = "reward_model.micro_batch_size_per_gpu", "actor_rollout_ref.model.path"
    project = {key: 16, other: None, "critic.enable": True}
    of_run = recipient(tmp_path, {key: None, other: None, "critic.enable": None})
    changed, remarks = setting_repairs.settle(of_run, project, {}, {key} if stated else ())
    assert {name: value for name, value in changed.items() if name == key} == {key: 16}
    assert other not in changed
    assert [item.key for item in remarks if item.key == key] == ([key] if stated else [])


def test_the_prompts_of_a_rollout_are_as_long_as_those_of_the_data(tmp_path: Path) -> None:
    key, longest = "actor_rollout_ref.rollout.prompt_length", "data.max_prompt_length"
    project: dict[str, Any] = {key: 512, longest: 512}
    changed, remarks = setting_repairs.settle(recipient(tmp_path, {key: 1024}), project, {}, ())
    assert (changed, [item.what for item in remarks]) == ({key: "${data.max_prompt_length}"}, ["changed"])
    again, remarks = setting_repairs.settle(recipient(tmp_path, {key: 1024, longest: 1024}), project, {}, ())
    assert (again, remarks) == (changed, [])
    assert setting_repairs.settle(recipient(tmp_path, {}), project, {}, ()) == ({}, [])
    assert setting_repairs.settle(recipient(tmp_path, {}), project, {key: 512}, ()) == ({}, [])
    # The run has the project's own number, so that nothing was set, and shorter prompts.
    run = {key: 512, longest: 256}
    shorter, remarks = setting_repairs.settle(recipient(tmp_path, {longest: 256}), project, run, ())
    assert (shorter, [item.value for item in remarks]) == (changed, [512])


@pytest.mark.parametrize(
    ("key", "value", "here"),
    [
        ("reward.reward_manager.name", None, "naive"),
        ("algorithm.filter_groups.metric", "reward", "seq_reward"),
    ],
)
def test_other_words_for_the_same_are_the_projects(tmp_path: Path, key: str, value: Any, here: str) -> None:
    filters = {"algorithm.filter_groups.enable": True}
    changed, remarks = setting_repairs.settle(recipient(tmp_path, {key: value, **filters}), {}, {}, ())
    assert (changed, [item.what for item in remarks]) == ({key: here}, ["changed"])


def test_a_reward_model_that_is_not_used_need_not_be_there(tmp_path: Path) -> None:
    path, switch = "reward.reward_model.model_path", "reward.reward_model.enable"
    project: dict[str, Any] = {path: None, switch: False}
    changed, remarks = setting_repairs.settle(recipient(tmp_path, {path: "~/no/such"}), project, {}, ())
    assert (changed, remarks) == ({path: None}, [])
    changed, remarks = setting_repairs.settle(recipient(tmp_path, {path: "~/no/such", switch: True}), project, {}, ())
    assert (changed, [item.key for item in remarks]) == ({}, [path])


def test_the_file_names_every_kind_of_remark() -> None:
    remarks = [Remark(f"a.{number}", "x|y", what, "since\nthen") for number, what in enumerate(report.TITLES)]
    text = report.text("run.sh, written for verl 0.9.1", remarks, ["line 3: looked at"])
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
        "How it was read",
        *(title.capitalize() for title in report.TITLES.values()),
    ]
    assert text.count("| `x\\|y` | since then |") == len(remarks)


@pytest.mark.usefixtures("verl")
def test_a_key_from_between_two_releases_is_the_one_that_was_released(tmp_path: Path) -> None:
    target = ReleaseConfig.of(source_of(NEWEST[-1]))
    key = "distillation.teacher_models.teacher_model.model_path"
    run = run_of(tmp_path, f"{LAUNCH} {key.replace('teacher_models.', '')}=some/model")
    found = release_match.fit(run, target, (target,))
    assert found.problems == ()
    assert flatten(found.config)[key] == "some/model"


@pytest.mark.usefixtures("verl")
def test_a_script_that_ends_without_a_variable_asks_for_it(tmp_path: Path) -> None:
    text = f'ROOT=${{ROOT:-}}\nMODEL=${{MODEL:-${{ROOT:+$ROOT/m}}}}\n: "${{MODEL:?say it}}"\n{LAUNCH}'
    (tmp_path / "run.sh").write_text(f'{text} actor_rollout_ref.model.path="$MODEL"\n')
    options = ("--from-verl-run", tmp_path / "run.sh", "--engine", "hf")
    refused = vextract("new", tmp_path / "p", *options)
    assert (refused.code, "not known without running it: $MODEL" in refused.err) == (2, True)
    assert vextract("new", tmp_path / "p", *options, "--set", "ROOT=/models").code == 0
    assert "path: /models/m" in (tmp_path / "p/config/recipe/verl_run.yaml").read_text()


@pytest.mark.usefixtures("verl")
def test_a_time_in_a_path_is_none_of_the_runs_settings(tmp_path: Path) -> None:
    options = ("--from-verl-run", tmp_path / "run.sh", "--engine", "hf", "--keep-unknown")
    of_a_fork = "+actor_rollout_ref.rollout.own.output_dir=/out/$(date +%F)/x"
    (tmp_path / "run.sh").write_text(f"{LAUNCH} {of_a_fork}\n")
    assert vextract("new", tmp_path / "p", *options).code == 0
    (tmp_path / "run.sh").write_text(f"{LAUNCH} data.seed=$(date +%s)\n")
    assert "(in data.seed)" in vextract("new", tmp_path / "q", *options).err


UNSET = LAUNCH + ' data.train_batch_size=$SIZE actor_rollout_ref.model.path="$MODEL" +data.of_a_fork=1 '


@pytest.mark.usefixtures("verl")
def test_variables_come_from_a_file_as_bash_writes_them(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"{UNSET} +mine.dir=/x/$(date +%s)\n")
    (tmp_path / "made.env").write_text("SIZE=2  # small\nexport MODEL='a b'\nLATER=$(hostname)\n")
    options = ("--from-verl-run", tmp_path / "run.sh", "--keep-unknown", "--engine", "hf")
    refused = vextract("new", tmp_path / "p", *options, "--set", "SIZE=2")
    assert refused.code == 2
    assert "not known without running it: $MODEL" in refused.err
    assert "mine.dir" not in refused.err  # of a section that no release has
    assert vextract("new", tmp_path / "p", *options, "--set", f"@{tmp_path}/made.env").code == 0
    recipe = (tmp_path / "p/config/recipe/verl_run.yaml").read_text()
    assert "path: a b" in recipe
    assert "train_batch_size: 2" in recipe
    assert "| `mine.dir` | `/x/$(date +%s)` |" in (tmp_path / "p/from_run.md").read_text()
    missing = vextract("new", tmp_path / "q", *options, "--set", "@nowhere.env")
    assert missing.code == 2
    assert "there is no such file" in missing.err


def test_many_unknown_variables_are_named_on_one_screen(tmp_path: Path) -> None:
    names = [f"trainer.x{number}=$X{number}" for number in range(30)]
    run = run_of(tmp_path, f"{LAUNCH} {' '.join(f'+{name}' for name in names)}")
    flat = {item.key: item.value for item in run.overrides}
    with pytest.raises(UsageError) as error:
        convert._check_known(run, flat, ())
    assert str(error.value).count("$X") == convert._SHOWN
    assert "and 24 more" in str(error.value)
    assert error.value.hint is not None
    assert "--set @FILE" in error.value.hint
    assert "X29" in error.value.hint


@pytest.mark.usefixtures("verl")
def test_of_a_config_of_its_own_a_run_says_what_is_not_verls_default(tmp_path: Path) -> None:
    own = {"data": {"image_key": "images", "video_key": "films"}, "critic": {"cliprange_value": 0.9}}
    files = {
        "train.py": '@hydra.main(config_path="c", config_name="own")\ndef main(c): ...\n',
        "c/own.yaml": yaml.safe_dump({"defaults": ["ppo_trainer"], **own, "trainer": {"x_nsight_options": {"a": 1}}}),
    }
    run_of(tmp_path, "python train.py algorithm.adv_estimator=grpo actor_rollout_ref.model.path=m", files)
    script = tmp_path / "run.sh"
    assert vextract("new", tmp_path / "p", "--from-verl-run", script, "--keep-unknown", "--engine", "hf").code == 0
    report = (tmp_path / "p/from_run.md").read_text()
    assert "data.image_key" not in report
    assert "| `data.video_key` | `films` |" in report
    assert "| `critic.cliprange_value` | `0.9` | its estimator has no critic |" in report
    assert "| `trainer.x_nsight_options.a` | `1` | there is no Ray |" in report
