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


def test_an_export_that_is_wrong_is_found_out(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = export.export
    for name, (spoil, silent, refused) in SPOILT.items():
        monkeypatch.setattr(export, "export", lambda *arguments, spoil=spoil: spoil(real(*arguments)))
        _, found, said = judged(project, tmp_path / name.partition(",")[0])
        assert (found, refused in said, bool(said)) == (silent, True, bool(refused)), name
