"""The whole judgement of an export: bash runs its run.sh, Hydra composes that, and each key is looked for in it."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import exported, under_hydra
from benchmarks.against_hydra import EQUAL, SILENT
from extractor.importers import export
from extractor.importers.config.release import CONFIG, ReleaseConfig
from extractor.importers.export import Export, KeyStatus
from extractor.usecases import new
from extractor.values.options import Options
from tests.benchmarks.test_judges import _namespaces
from tests.releases import NEWEST, source_of

pytestmark = [
    pytest.mark.slow,  # makes a project, and exports of it
    pytest.mark.usefixtures("verl"),
    pytest.mark.skipif(not _namespaces(), reason="needs Linux namespaces (unshare)"),
]
RATE, MODEL = "actor_rollout_ref.actor.optim.lr", "actor_rollout_ref.model.path"
Judged = tuple[Counter[str], list[str], str]


@pytest.fixture(scope="module")
def project(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("exported") / "proj"
    wanted = new.NewRequest(Options("proj", NEWEST[-1], "vllm", "grpo", (), "toy"))
    new.write(place, new.make_in_memory(wanted, lambda text: None))
    return place


def judged(project: Path, folder: Path) -> Judged:
    files = ReleaseConfig.of(source_of(NEWEST[-1])).files
    tree = under_hydra.configs_of({f"{CONFIG}{path}": text for path, text in files.items()}, folder / "tree")
    counts, silent, refused = exported.judged(project, tree, folder / "out")
    assert counts[SILENT] == len(silent)
    return counts, [item.key for item in silent], refused


def test_an_export_is_accepted_and_says_what_it_changes(project: Path, tmp_path: Path) -> None:
    counts, silent, refused = judged(project, tmp_path)
    assert (silent, refused) == ([], "")
    assert counts[EQUAL] > 100
    assert counts[exported.IN_THE_TABLE] > 10


def _script(change: Callable[[str], str]) -> Callable[[Export], Export]:
    """Return what changes the launch script of an export."""

    def changed(made: Export) -> Export:
        before = made.files["run.sh"].decode()
        after = change(before)
        assert after != before
        return replace(made, files={**made.files, "run.sh": after.encode()})

    return changed


def _table(key: str, status: KeyStatus) -> Callable[[Export], Export]:
    """Return what says something else about a key in the table of an export."""
    return lambda made: replace(
        made, keys=tuple(replace(item, status=status) if item.key == key else item for item in made.keys)
    )


def _without(key: str) -> Callable[[str], str]:
    return lambda text: re.sub(rf"^\s*{re.escape(key)}=.*\\\n", "", text, flags=re.MULTILINE)


def _with(key: str, value: str) -> Callable[[str], str]:
    return lambda text: re.sub(rf'"?{re.escape(key)}=\S+', f"{key}={value}", text, count=1)


@pytest.mark.parametrize(
    ("spoil", "silent", "refused"),
    [
        pytest.param(_script(_without(RATE)), [RATE], "", id="left out of the script"),
        pytest.param(_script(_with(RATE, "0.5")), [RATE], "", id="another value in the script"),
        pytest.param(_script(_with(MODEL, "/elsewhere")), [MODEL], "", id="not what the table says it becomes"),
        pytest.param(_table("local.seed", KeyStatus.CARRIED), ["local.seed"], "", id="dropped, and the table has it"),
        pytest.param(_script(_with(RATE, "1 no.such.key=1")), [RATE], "no.such.key=1", id="a key that verl has not"),
        pytest.param(_script(_with(RATE, "'['")), [], "no viable alternative", id="no override at all"),
        pytest.param(_script(lambda text: f"exit 1\n{text}"), [], "starts no trainer", id="starts nothing"),
    ],
)
def test_an_export_that_is_wrong_is_found_out(
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Export], Export],
    silent: list[str],
    refused: str,
) -> None:
    real = export.export
    monkeypatch.setattr(export, "export", lambda *arguments: spoil(real(*arguments)))
    _, found, said = judged(project, tmp_path)
    assert found == silent
    assert refused in said
    assert bool(said) == bool(refused)
