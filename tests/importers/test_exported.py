"""What an export makes of settings, as Hydra composes it with the release's own config tree; how that is judged."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks import exported, under_hydra
from benchmarks.against_hydra import EQUAL, SILENT
from extractor.importers import export
from extractor.importers.config.keys import map_key
from extractor.importers.config.project import map_overrides
from extractor.importers.config.release import CONFIG, ReleaseConfig, VerlDefaults
from extractor.importers.export import Export, KeyStatus, changes
from extractor.usecases import new
from extractor.values.configtree import BadOverride, parse_override, write_override
from extractor.values.options import Options
from tests.benchmarks.test_judges import _namespaces
from tests.importers.conftest import Result, vextract
from tests.project.test_upstream_defaults import own as defaults_of_a_project
from tests.releases import ALL, NEWEST, source_of

OPTIM, ACTOR = "actor_rollout_ref.actor.optim", "actor_rollout_ref.actor"


def export_of(project: Path, out: Path, *settings: str) -> Result:
    items = [item for setting in settings for item in ("--set", setting)]
    return vextract("export", project, "-o", out, "--json", *items)


def config_tree(release: str, folder: Path) -> Any:
    files = {f"{CONFIG}{path}": text for path, text in ReleaseConfig.of(source_of(release)).files.items()}
    return under_hydra.configs_of(files, folder)


def composed(result: Result, release: str, out: Path) -> Mapping[str, Any]:
    """The release's config as Hydra composes it of what an export passes."""
    assert result.code == 0, result.err
    tree = config_tree(release, out.with_name(f"{out.name}-tree"))
    found = under_hydra.composed(tree, None, result.json["overrides"], {}, out)
    assert (found.refused, found.forced) == ("", ())
    return found.config


@pytest.fixture(scope="module")
def older(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of a release that runs reward models in its workers."""
    place = tmp_path_factory.mktemp("older") / "older"
    assert vextract("new", place, "--verl", "0.6.1", "--algorithm", "dapo", "--with", "reward_model").code == 0
    return place


@pytest.mark.thorough
def test_keys_that_are_no_words_are_in_a_mapping(projects: dict[str, Path], tmp_path: Path) -> None:
    mixed = r"{openai/gsm8k:0.5,my\ set:0.25,a.b:{c\:d:1},plain:2}"
    function = "reward.custom_reward_function"
    settings = (f"+data.env.mix={mixed}", f"{function}.path=/f.py", f"+{function}.reward_kwargs.of_mine={{a\\ b:1}}")
    result = export_of(projects["toy"], tmp_path / "out", *settings)
    made = composed(result, NEWEST[-1], tmp_path / "out")
    assert made["data.env.mix.openai/gsm8k"] == 0.5
    assert made["data.env.mix.my set"] == 0.25
    assert made["data.env.mix.plain"] == 2
    assert made[f"{function}.reward_kwargs.of_mine.a b"] == 1
    text = (tmp_path / "out/run.sh").read_text()
    assert "a.b:{c\\:d:1}" in text  # one level, and not two


@pytest.mark.thorough
def test_keys_that_hydra_has_no_words_for_are_refused(tmp_path: Path) -> None:
    project = tmp_path / "p"
    assert vextract("new", project, "--verl", NEWEST[-1]).code == 0
    config = project / "config/ppo_trainer.yaml"
    text = config.read_text()
    assert "  env:\n" in text
    for key in ('"schön"', '""', "7"):
        config.write_text(text.replace("  env:\n", f"  env:\n    mix: {{{key}: 0.5}}\n", 1))
        result = export_of(project, tmp_path / "out")
        assert (result.code, key.strip('"') in result.err, "hint: " in result.err) == (2, True, True)
        assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_what_makes_it_another_experiment_is_said(projects: dict[str, Path], older: Path, tmp_path: Path) -> None:
    for project, setting, lost in (
        (older, "data.train_batch_size=8", 'algorithm.filter_groups (enable=true, metric="reward")'),
        (older, "algorithm.filter_groups.enable=false", None),
        (projects["toy"], "local.rollout.ahead=1", "local.rollout (ahead=1)"),
        (projects["toy"], f"{OPTIM}.optimizer=Adam", None),
    ):
        result = export_of(project, tmp_path / setting.partition("=")[0], setting)
        told = [text for text in result.json["remarks"] if "another experiment" in text]
        assert [text.partition(": ")[0] for text in told] == ([] if lost is None else [lost])
        assert all(f"warning: {text.partition(':')[0]}" in result.err for text in told)


@pytest.mark.thorough
def test_a_project_as_it_is_made_is_the_same_experiment() -> None:
    """So that a warning is worth reading."""
    for release in ALL:
        target = ReleaseConfig.of(source_of(release))
        defaults = VerlDefaults.of(target)
        keys = [map_key(key, value, target, defaults, {}) for key, value in defaults_of_a_project(release).items()]
        told = [text for text in changes.list_lost_settings(keys) if not text.startswith("reward.reward_kwargs ")]
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


@pytest.mark.thorough
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


namespaces = pytest.mark.skipif(not _namespaces(), reason="needs Linux namespaces (unshare)")
RATE, MODEL = "actor_rollout_ref.actor.optim.lr", "actor_rollout_ref.model.path"
Judged = tuple[Counter[str], list[str], str]


@pytest.fixture(scope="module")
def project(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("exported") / "proj"
    wanted = new.NewRequest(Options("proj", NEWEST[-1], "vllm", "grpo", (), "toy"))
    new.write(place, new.make_in_memory(wanted, lambda text: None))
    return place


def judged(project: Path, folder: Path) -> Judged:
    tree = config_tree(NEWEST[-1], folder / "tree")
    counts, silent, refused = exported.judged(project, tree, folder / "out")
    assert counts[SILENT] == len(silent)
    return counts, [item.key for item in silent], refused


@namespaces
def test_an_export_is_accepted_and_says_what_it_changes(project: Path, tmp_path: Path) -> None:
    counts, silent, refused = judged(project, tmp_path)
    assert (silent, refused) == ([], "")
    assert counts[EQUAL] > 100
    assert counts[exported.IN_THE_TABLE] > 10


def in_script(pattern: str, other: str) -> Callable[[Export], Export]:
    """Return what changes the launch script of an export."""

    def changed(made: Export) -> Export:
        after, count = re.subn(pattern, other, made.files["run.sh"].decode(), count=1, flags=re.MULTILINE)
        assert count
        return replace(made, files={**made.files, "run.sh": after.encode()})

    return changed


def in_table(made: Export) -> Export:
    """Say of a key that is dropped that the table has it."""
    keys = (replace(item, status=KeyStatus.CARRIED) if item.key == "local.seed" else item for item in made.keys)
    return replace(made, keys=tuple(keys))


RATE_SET = rf'"?{re.escape(RATE)}=\S+'
SPOILT: dict[str, tuple[Callable[[Export], Export], list[str], str]] = {
    "left out of the script": (in_script(rf"^\s*{re.escape(RATE)}=.*\\\n", ""), [RATE], ""),
    "another value in the script": (in_script(RATE_SET, f"{RATE}=0.5"), [RATE], ""),
    "not what the table says it becomes": (in_script(rf'"?{re.escape(MODEL)}=\S+', f"{MODEL}=/elsewhere"), [MODEL], ""),
    "dropped, and the table has it": (in_table, ["local.seed"], ""),
    "a key that verl has not": (in_script(RATE_SET, f"{RATE}=1 no.such.key=1"), [RATE], "no.such.key=1"),
    "no override at all": (in_script(RATE_SET, f"{RATE}='['"), [], "no viable alternative"),
    "starts nothing": (in_script(r"\A", "exit 1\n"), [], "starts no trainer"),
}


@namespaces
def test_an_export_that_is_wrong_is_found_out(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = export.export
    for name, (spoil, silent, refused) in SPOILT.items():
        monkeypatch.setattr(export, "export", lambda *arguments, spoil=spoil: spoil(real(*arguments)))
        _, found, said = judged(project, tmp_path / name.partition(",")[0])
        assert (found, refused in said, bool(said)) == (silent, True, bool(refused)), name
