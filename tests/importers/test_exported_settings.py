"""What an export makes of settings, as Hydra composes it with the release's own config tree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks import under_hydra
from extractor.importers.config.keys import map_key
from extractor.importers.config.project import by_override
from extractor.importers.config.release import CONFIG, Defaults, Target
from extractor.importers.export import learning
from extractor.values.configtree import BadOverride, parse_override, write_override
from extractor.values.renames import Renames
from tests.importers.conftest import Result, vextract
from tests.project.test_upstream_defaults import own as defaults_of_a_project
from tests.releases import ALL, NEWEST, newest_release, source_of

pytestmark = pytest.mark.thorough  # files of runs that people bring: test_round_trip has one of each kind

JUDGE = ("reward.reward_model.enable=true", "reward.reward_model.model_path=/judge")
# Of those whose workers run reward models the others take part in `make test-all`.
CLASSIFIERS = [item for item in newest_release("0.5.0", "0.7.0") if item.values[0] in ALL[: ALL.index("0.7.1")]]
TOKENIZER, SIZE = "reward_model.model.input_tokenizer", "reward_model.micro_batch_size_per_gpu"


def exported(project: Path, release: str, out: Path, *settings: str) -> Result:
    items = [item for setting in settings for item in ("--set", setting)]
    return vextract("export", project, "--verl", release, "-o", out, "--json", *items)


def composed(result: Result, release: str, out: Path) -> Mapping[str, Any]:
    """The release's config as Hydra composes it of what an export passes."""
    assert result.code == 0, result.err
    files = {f"{CONFIG}{path}": text for path, text in Target.of(source_of(release)).files.items()}
    tree = under_hydra.configs_of(files, out.with_name(f"{out.name}-tree"))
    found = under_hydra.composed(tree, None, result.json["overrides"], {}, out)
    assert (found.refused, found.forced) == ("", ())
    return found.config


@pytest.mark.slow
@pytest.mark.parametrize("release", CLASSIFIERS)
def test_a_reward_model_keeps_its_settings(projects: dict[str, Path], release: str, tmp_path: Path) -> None:
    of_project = "local.reward_model"
    given = ("input_tokenizer=/other", "max_length=77", "micro_batch_size_per_gpu=3", "param_offload=true")
    settings = [*JUDGE, "data.return_raw_chat=true", *(f"{of_project}.{item}" for item in given)]
    result = exported(projects["toy"], release, tmp_path / "out", *settings)
    made = composed(result, release, tmp_path / "out")
    assert made[TOKENIZER] == "/other"
    assert (made["reward_model.max_length"], made[SIZE], made["reward_model.micro_batch_size"]) == (77, 3, None)
    assert made["reward_model.model.fsdp_config.param_offload"] is True
    assert made["reward_model.model.path"] == "/judge"
    assert not made.get("reward_model.use_reward_loop")  # 0.7.0 would serve it, in its own template


@pytest.mark.slow
@pytest.mark.parametrize("release", CLASSIFIERS)
def test_a_reward_model_that_reads_the_policys_tokens_goes_on_doing_so(
    projects: dict[str, Path], release: str, tmp_path: Path
) -> None:
    """By default those releases put conversations into its template, and ask for the size of a pass."""
    settings = (*JUDGE, "local.reward_model.micro_batch_size_per_gpu=null", "data.train_batch_size=32")
    result = exported(projects["toy"], release, tmp_path / "out", *settings, "actor_rollout_ref.rollout.n=4")
    made = composed(result, release, tmp_path / "out")
    assert made[TOKENIZER] is None
    assert (made[SIZE], made["reward_model.micro_batch_size"]) == (128, None)


@pytest.mark.slow
def test_a_tokenizer_that_is_the_policys_follows_it(projects: dict[str, Path], tmp_path: Path) -> None:
    settings = (*JUDGE, "actor_rollout_ref.model.path=/policy", "local.reward_model.input_tokenizer=/policy")
    made = composed(exported(projects["toy"], "0.6.1", tmp_path / "out", *settings), "0.6.1", tmp_path / "out")
    assert made[TOKENIZER] == "/policy"


@pytest.mark.slow
def test_a_reward_model_that_is_served_has_an_engine(projects: dict[str, Path], tmp_path: Path) -> None:
    settings = (*JUDGE, "local.reward_model.max_length=9")
    result = exported(projects["toy"], NEWEST[-1], tmp_path / "out", *settings)
    made = composed(result, NEWEST[-1], tmp_path / "out")
    assert made["reward.reward_model.rollout.name"] == "vllm"
    assert made["reward.reward_model.rollout.tensor_model_parallel_size"] == 1
    assert any("chat template" in text for text in result.json["remarks"])
    assert any("max_length" in text for text in result.json["remarks"])


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.5.0", NEWEST[-1]])
def test_keys_that_are_no_words_are_in_a_mapping(projects: dict[str, Path], release: str, tmp_path: Path) -> None:
    mixed = r"{openai/gsm8k:0.5,my\ set:0.25,a.b:{c\:d:1},plain:2}"
    result = exported(projects["toy"], release, tmp_path / "out", f"+data.env.mix={mixed}")
    made = composed(result, release, tmp_path / "out")
    assert made["data.env.mix.openai/gsm8k"] == 0.5
    assert made["data.env.mix.my set"] == 0.25
    assert made["data.env.mix.plain"] == 2
    text = (tmp_path / "out/run.sh").read_text()
    assert "a.b:{c\\:d:1}" in text  # one level, and not two
    back = tmp_path / "back"
    assert vextract("new", back, "--verl", NEWEST[-1], "--from-verl-run", tmp_path / "out/run.sh").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("key", ['"schön"', '""', "7"])
def test_keys_that_hydra_has_no_words_for_are_refused(projects: dict[str, Path], key: str, tmp_path: Path) -> None:
    project = tmp_path / "p"
    assert vextract("new", project, "--verl", NEWEST[-1]).code == 0
    config = project / "config/ppo_trainer.yaml"
    text = config.read_text()
    assert "  env:\n" in text
    config.write_text(text.replace("  env:\n", f"  env:\n    mix: {{{key}: 0.5}}\n", 1))
    result = exported(project, NEWEST[-1], tmp_path / "out")
    assert result.code == 2
    assert key.strip('"') in result.err
    assert "hint: " in result.err
    assert not (tmp_path / "out").exists()


OPTIM, ACTOR = "actor_rollout_ref.actor.optim", "actor_rollout_ref.actor"
LOST = {
    "+algorithm.rollout_correction.rollout_is=token": 'algorithm.rollout_correction (rollout_is="token")',
    f"{ACTOR}.loss_scale_factor=100": f"{ACTOR} (loss_scale_factor=100)",
    "+data.apply_chat_template_kwargs.enable_thinking=false": "data.apply_chat_template_kwargs (enable_thinking=false)",
    "data.train_max_samples=100": "data (train_max_samples=100)",
    f"{OPTIM}.optimizer=Adam": f'{OPTIM} (optimizer="Adam")',
    "local.rollout.ahead=1": "local.rollout (ahead=1)",
}


@pytest.mark.slow
def test_what_makes_it_another_experiment_is_said(projects: dict[str, Path], tmp_path: Path) -> None:
    settings = (*LOST, f"{ACTOR}.loss_agg_mode=seq-mean-token-sum-norm")
    result = exported(projects["toy"], "0.5.0", tmp_path / "out", *settings)
    assert result.code == 0, result.err
    told = [text for text in result.json["remarks"] if "another experiment" in text]
    assert sorted(text.partition(": ")[0] for text in told) == sorted(LOST.values())
    assert all(f"warning: {text.partition(':')[0]}" in result.err for text in told)
    assert not any(name.partition("=")[0].lstrip("+") in item for name in LOST for item in result.json["overrides"])
    result = exported(projects["toy"], NEWEST[-1], tmp_path / "newest", *settings[:5])
    assert not [text for text in result.json["remarks"] if "another experiment" in text]


@pytest.mark.slow
def test_a_setting_that_is_not_in_use_is_not_missed(projects: dict[str, Path], tmp_path: Path) -> None:
    settings = (f"{ACTOR}.loss_scale_factor=100", "algorithm.filter_groups.max_num_gen_batches=3")
    result = exported(projects["toy"], "0.5.0", tmp_path / "out", *settings)
    assert not [text for text in result.json["remarks"] if "another experiment" in text]


@pytest.mark.parametrize("release", newest_release("0.5.0"))
def test_a_project_as_it_is_made_is_the_same_experiment_everywhere(verl: None, release: str) -> None:
    """So that a warning is worth reading: of the defaults of any release's projects only a correction is one."""
    target = Target.of(source_of(release))
    defaults = Defaults.of(target)
    told = {
        text.partition(" (")[0]
        for made in ALL
        for text in learning.remarks(
            [
                map_key(key, value, target, defaults, Renames(made, release), {})
                for key, value in defaults_of_a_project(made).items()
            ]
        )
    }
    assert told <= {"algorithm.rollout_correction", "reward.reward_kwargs"}  # the latter an adapter takes along


# Keys that these releases' configs lack: of those the ones that code which trains by FSDP reads, as one reads there.
READ = {
    "0.5.0": {
        f"{OPTIM}.optimizer": False,  # utils/megatron_utils.py alone
        f"{OPTIM}.clip_grad": False,  # it is actor.grad_clip there
        f"{OPTIM}.betas": True,
        "actor_rollout_ref.actor.fsdp_config.seed": False,  # rollout.seed is read, and no other
        "actor_rollout_ref.rollout.seed": True,
        "actor_rollout_ref.actor.use_fused_kernels": True,
        "actor_rollout_ref.nccl_timeout": False,  # megatron_workers.py alone
        "critic.model.use_fused_kernels": False,  # of the actor's model
        "critic.optim.optimizer": False,
        "critic.optim.num_cycles": False,  # of the actor's optimizer
        "critic.optim.lr_warmup_steps": True,
        "data.seed": True,
        "data.mm_processor_kwargs": False,
    },
    "0.7.1": {"algorithm.filter_groups.enable": False},  # a dataclass has it
    NEWEST[-1]: {"algorithm.rollout_correction.use_policy_gradient": False},
}


@pytest.mark.parametrize("release", READ)
def test_a_key_is_read_by_code_that_trains(verl: None, release: str) -> None:
    target = Target.of(source_of(release))
    config = target.compose().config
    assert {key: target.trains_with(key, config) for key in READ[release]} == READ[release]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "section"),
    [
        ("0.4.0", "custom_reward_function"),
        ("0.6.1", "custom_reward_function"),
        (NEWEST[-1], "reward.custom_reward_function"),
    ],
)
def test_arguments_of_a_function_go_where_the_release_takes_them(
    projects: dict[str, Path], release: str, section: str, tmp_path: Path
) -> None:
    function = "reward.custom_reward_function"
    settings = (
        f"{function}.path=/f.py",
        f"+{function}.reward_kwargs.of_mine={{a\\ b:1}}",
        f"+{function}.reward_kwargs.n=2",
    )
    result = exported(projects["toy"], release, tmp_path / "out", *settings, "reward.reward_manager.name=naive")
    made = composed(result, release, tmp_path / "out")
    assert made[f"{section}.reward_kwargs.of_mine.a b"] == 1
    assert made[f"{section}.reward_kwargs.n"] == 2
    assert not [text for text in result.json["remarks"] if "another experiment" in text]


KL_LOSS = (f"{ACTOR}.use_kl_loss=true", f"{ACTOR}.kl_loss_type")
KL_REWARD = ("algorithm.use_kl_in_reward=true", "algorithm.kl_penalty")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("on", "key", "word", "known"),
    [
        (*KL_LOSS, "low_var_kl+", {"0.5.0": False, "0.6.1": True}),
        (*KL_REWARD, "k1+", {"0.4.0": False, NEWEST[-1]: True}),
        (*KL_REWARD, "k9", {NEWEST[-1]: False}),
        ("data.train_batch_size=8", "algorithm.kl_penalty", "k1+", {"0.4.0": True}),  # not in use
        ("data.train_batch_size=8", f"{ACTOR}.loss_agg_mode", "token-sum", {"0.5.0": False, NEWEST[-1]: True}),
        ("data.train_batch_size=8", f"{ACTOR}.policy_loss.loss_mode", "sapo", {"0.6.1": False, "0.7.1": True}),
        ("data.train_batch_size=8", f"{OPTIM}.lr_scheduler_type", "linear", {"0.5.0": False, NEWEST[-1]: False}),
        ("data.train_batch_size=8", "algorithm.adv_estimator", "gdpo", {"0.7.0": False, "0.7.1": True}),
        ("data.train_batch_size=8", "trainer.logger", "[console,trackio]", {"0.5.0": False, "0.6.1": True}),
        ("algorithm.kl_ctrl.type=adaptive", "algorithm.kl_penalty", "abs", {"0.4.0": True}),
    ],
)
def test_a_word_that_a_release_does_not_know_is_refused(
    projects: dict[str, Path], on: str, key: str, word: str, known: dict[str, bool], tmp_path: Path
) -> None:
    for release, knows in known.items():
        result = exported(projects["toy"], release, tmp_path / release, on, f"{key}={word}")
        assert result.code == (0 if knows else 2), (release, result.err)
        if not knows:
            assert f"{key}={word.strip('[]').rpartition(',')[2]}: verl {release} has no such" in result.err
            assert re.search(rf"hint: --set '?{re.escape(key)}=\[?\w+", result.err), result.err


@pytest.mark.slow
@pytest.mark.parametrize(("release", "takes"), [("0.5.0", False), ("0.6.0", True)])
def test_an_estimator_of_ones_own_needs_a_trainer_that_takes_it(release: str, takes: bool, tmp_path: Path) -> None:
    project = tmp_path / "p"
    assert vextract("new", project, "--verl", NEWEST[-1]).code == 0
    hook = project / "p/custom/algorithms.py"
    hook.write_text(hook.read_text() + '\nNAMES = ["of_my_own"]\n')
    result = exported(project, release, tmp_path / "out", "algorithm.adv_estimator=of_my_own")
    assert result.code == 0, result.err
    assert ("stops at an estimator that is not its own" in result.err) is not takes


def _nested(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config that overrides make, in order, as Hydra merges them."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        override = parse_override(write_override(name, value, "+"))
        assert override.key == name
        node = found
        *sections, last = override.key.split(".")
        for part in sections:
            node = node.setdefault(part, {})
        if isinstance(override.value, dict) and isinstance(node.get(last), dict):
            node[last].update(override.value)
        else:
            node[last] = override.value
    return found


_KEYS = st.text(alphabet="ab7 ./:-_=,{}[]()'\"\\$@~é", max_size=6) | st.sampled_from(["true", "null", "0", "07", "1.5"])
_MAPPINGS = st.recursive(
    st.integers(0, 9), lambda inner: st.dictionaries(_KEYS, inner, min_size=1, max_size=3), max_leaves=6
)


@given(st.dictionaries(_KEYS | st.integers(0, 12), _MAPPINGS, min_size=1, max_size=3))
@example({"openai/gsm8k": 1, "my set": 2})
@example({"a.b": {"c": 1}, "a": {"b": 2}})
@example({"a:b": 1, "a\\": 2})
def test_hydra_reads_every_key_as_it_is_or_it_is_refused(drawn: dict[str, Any]) -> None:
    flat = by_override({"section": {"inner": drawn}})
    try:
        made = _nested(flat)
    except BadOverride:
        return
    assert made == {"section": {"inner": drawn}}
