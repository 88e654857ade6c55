"""Methods that a slice leaves out: projects that have them, and owners who use or edit them."""

from dataclasses import replace
from pathlib import Path

import pytest

from extractor.importers.adopt import adopt, recognise
from extractor.pipeline.generate import complete
from extractor.pipeline.source import Source
from extractor.project import base, lock
from extractor.usecases import emitted_files, upgrade
from extractor.usecases.upgrade.choices import UpgradeRequest
from extractor.values import releases
from extractor.values.options import Options
from extractor.values.tree import FileKind
from tests.importers.adopt.forks import Fork
from tests.lifecycle.worlds import replace_once
from tests.project.support import Configuration, files_of, make

RELEASE = "0.6.1"
CONFIG, TYPES = "toy/vendored/workers/config/actor.py", "toy/vendored/utils/torch_dtypes.py"
EDITED, USED = (
    "verl.workers.config.actor:ActorConfig._check_mutually_exclusive",
    "verl.utils.torch_dtypes:PrecisionType",
)


def project(root: Path, *, whole: bool = False) -> None:
    """Write a project; with `whole` as vextract made it when it kept or dropped whole classes."""
    manifest = releases.load(RELEASE)
    make(Configuration(RELEASE), root, replace(manifest, whole=("verl*:*",)) if whole else manifest)


def upgraded(root: Path) -> upgrade.Upgrade:
    found = upgrade.prepare(root, UpgradeRequest(release=RELEASE), offline=True)
    upgrade.write(root, found)
    return found


def vendored(root: Path) -> dict[str, bytes]:
    locked = {entry.path for entry in lock.read(root).files if entry.kind is not FileKind.HOOK}
    return {path: data for path, data in files_of(root).items() if path in (*locked, lock.NAME)}


@pytest.fixture
def former(verl: None, tmp_path: Path) -> Path:
    """A project whose classes are whole."""
    project(tmp_path / "former", whole=True)
    return tmp_path / "former"


@pytest.mark.thorough
def test_a_project_of_whole_classes_becomes_a_new_one(former: Path) -> None:
    assert "def _check_mutually_exclusive" in (former / CONFIG).read_text(encoding="utf-8")
    found = upgraded(former)
    project(former.parent / "fresh")
    assert found.changes_anything
    assert vendored(former) == vendored(former.parent / "fresh")
    assert not upgraded(former).changes_anything


@pytest.mark.thorough
@pytest.mark.parametrize("whole", [True, False])
def test_what_the_owner_uses_is_vendored_again(verl: None, tmp_path: Path, whole: bool) -> None:
    root = tmp_path / "toy"
    project(root, whole=whole)
    hook = root / "toy" / "custom" / "algorithms.py"
    hook.write_text(hook.read_text(encoding="utf-8") + "\n\ndef name(kind):\n    return kind.to_str(1)\n")
    found = upgraded(root)
    assert found.new.options.methods == (f"{USED}.to_str",)
    text = (root / TYPES).read_text(encoding="utf-8")
    assert "def to_str" in text
    assert "def supported_types" not in text
    again = emitted_files.regenerate(lock.read(root), offline=True)
    assert emitted_files.list_differences(lock.read(root), base.collect_from_tree(again.generated.tree)) == []
    assert not upgraded(root).changes_anything


NAME = "    def _check_mutually_exclusive("


@pytest.mark.parametrize(
    ("old", "new"),
    [(NAME, f"    # mine\n{NAME}"), pytest.param(NAME, f"    @print\n{NAME}", marks=pytest.mark.thorough)],
)
def test_a_method_that_the_owner_has_edited_stays(former: Path, old: str, new: str) -> None:
    replace_once(former / CONFIG, old, new)
    found = upgraded(former)
    assert found.new.options.methods == (EDITED,)
    assert new in (former / CONFIG).read_text(encoding="utf-8")
    assert "def to_str" not in (former / TYPES).read_text(encoding="utf-8")


@pytest.mark.thorough
def test_a_method_that_a_fork_has_edited_comes_along(tmp_path: Path, verl_0_6_1: Source) -> None:
    fork = Fork(tmp_path / "repo", verl_0_6_1)
    fork.into("workers/config/actor.py", "_check_mutually_exclusive", "token = 'MINE'")
    fork.into("workers/config/actor.py", "validate", "self.kind.to_str(1)")
    manifest = releases.load(RELEASE)
    adoption = adopt(recognise(fork.top, RELEASE, offline=True), complete(Options("toy", RELEASE), manifest), manifest)
    assert {EDITED} <= set(adoption.options.methods)
    written = adoption.plan.writes()[CONFIG].decode()
    assert "token = 'MINE'" in written
    assert "self.kind.to_str(1)" in written
    assert [edit.outcome.value for edit in adoption.edits] == ["carried"] * len(adoption.edits)
