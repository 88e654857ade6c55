"""What an export makes of settings, as Hydra composes it with the release's own config tree."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks import under_hydra
from extractor.importers.config.keys import map_key
from extractor.importers.config.project import map_overrides
from extractor.importers.config.release import CONFIG, ReleaseConfig, VerlDefaults
from extractor.importers.export import checks
from extractor.values.configtree import BadOverride, parse_override, write_override
from tests.importers.conftest import Result, vextract
from tests.project.test_upstream_defaults import own as defaults_of_a_project
from tests.releases import ALL, NEWEST, source_of

pytestmark = pytest.mark.thorough  # files of runs that people bring: test_round_trip has one of each kind

OPTIM, ACTOR = "actor_rollout_ref.actor.optim", "actor_rollout_ref.actor"


def exported(project: Path, out: Path, *settings: str) -> Result:
    items = [item for setting in settings for item in ("--set", setting)]
    return vextract("export", project, "-o", out, "--json", *items)


def composed(result: Result, release: str, out: Path) -> Mapping[str, Any]:
    """The release's config as Hydra composes it of what an export passes."""
    assert result.code == 0, result.err
    files = {f"{CONFIG}{path}": text for path, text in ReleaseConfig.of(source_of(release)).files.items()}
    tree = under_hydra.configs_of(files, out.with_name(f"{out.name}-tree"))
    found = under_hydra.composed(tree, None, result.json["overrides"], {}, out)
    assert (found.refused, found.forced) == ("", ())
    return found.config


@pytest.fixture(scope="module")
def older(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of a release that runs reward models in its workers."""
    place = tmp_path_factory.mktemp("older") / "older"
    assert vextract("new", place, "--verl", "0.6.1", "--algorithm", "dapo", "--with", "reward_model").code == 0
    return place


@pytest.mark.slow
def test_keys_that_are_no_words_are_in_a_mapping(projects: dict[str, Path], tmp_path: Path) -> None:
    mixed = r"{openai/gsm8k:0.5,my\ set:0.25,a.b:{c\:d:1},plain:2}"
    function = "reward.custom_reward_function"
    settings = (f"+data.env.mix={mixed}", f"{function}.path=/f.py", f"+{function}.reward_kwargs.of_mine={{a\\ b:1}}")
    result = exported(projects["toy"], tmp_path / "out", *settings)
    made = composed(result, NEWEST[-1], tmp_path / "out")
    assert made["data.env.mix.openai/gsm8k"] == 0.5
    assert made["data.env.mix.my set"] == 0.25
    assert made["data.env.mix.plain"] == 2
    assert made[f"{function}.reward_kwargs.of_mine.a b"] == 1
    text = (tmp_path / "out/run.sh").read_text()
    assert "a.b:{c\\:d:1}" in text  # one level, and not two


@pytest.mark.slow
def test_keys_that_hydra_has_no_words_for_are_refused(tmp_path: Path) -> None:
    project = tmp_path / "p"
    assert vextract("new", project, "--verl", NEWEST[-1]).code == 0
    config = project / "config/ppo_trainer.yaml"
    text = config.read_text()
    assert "  env:\n" in text
    for key in ('"schön"', '""', "7"):
        config.write_text(text.replace("  env:\n", f"  env:\n    mix: {{{key}: 0.5}}\n", 1))
        result = exported(project, tmp_path / "out")
        assert (result.code, key.strip('"') in result.err, "hint: " in result.err) == (2, True, True)
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_what_makes_it_another_experiment_is_said(projects: dict[str, Path], older: Path, tmp_path: Path) -> None:
    for project, setting, lost in (
        (older, "data.train_batch_size=8", 'algorithm.filter_groups (enable=true, metric="reward")'),
        (older, "algorithm.filter_groups.enable=false", None),
        (projects["toy"], "local.rollout.ahead=1", "local.rollout (ahead=1)"),
        (projects["toy"], f"{OPTIM}.optimizer=Adam", None),
    ):
        result = exported(project, tmp_path / setting.partition("=")[0], setting)
        told = [text for text in result.json["remarks"] if "another experiment" in text]
        assert [text.partition(": ")[0] for text in told] == ([] if lost is None else [lost])
        assert all(f"warning: {text.partition(':')[0]}" in result.err for text in told)


def test_a_project_as_it_is_made_is_the_same_experiment() -> None:
    """So that a warning is worth reading."""
    for release in ALL:
        target = ReleaseConfig.of(source_of(release))
        defaults = VerlDefaults.of(target)
        keys = [map_key(key, value, target, defaults, {}) for key, value in defaults_of_a_project(release).items()]
        told = [text for text in checks.list_lost_settings(keys) if not text.startswith("reward.reward_kwargs ")]
        assert told == [], release  # those of a reward manager an adapter takes along


# Keys that these releases' configs lack: of those the ones that code which trains by FSDP reads.
READ = {
    "0.5.0": {
        f"{OPTIM}.optimizer": False,  # utils/megatron_utils.py alone
        f"{OPTIM}.clip_grad": False,  # it is actor.grad_clip there
        f"{OPTIM}.betas": True,
        "actor_rollout_ref.rollout.seed": True,
        f"{ACTOR}.use_fused_kernels": True,
        "actor_rollout_ref.nccl_timeout": False,  # megatron_workers.py alone
        "data.seed": True,
        "data.mm_processor_kwargs": False,
        "custom_reward_function.reward_kwargs.mine": True,
    },
    "0.7.1": {"algorithm.filter_groups.enable": False},  # a dataclass has it
    NEWEST[-1]: {"algorithm.rollout_correction.use_policy_gradient": False, "algorithm.filter_groups.enable": True},
}


def test_a_key_is_read_by_code_that_trains() -> None:
    for release, read in READ.items():
        target = ReleaseConfig.of(source_of(release))
        config = target.compose().config
        assert {key: target.is_read_in_training(key, config) for key in read} == read, release


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
    flat = map_overrides({"section": {"inner": drawn}})
    try:
        made = _nested(flat)
    except BadOverride:
        return
    assert made == {"section": {"inner": drawn}}
