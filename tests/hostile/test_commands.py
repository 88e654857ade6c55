"""Commands in projects and on sources that hold anything: each ends with a code of its own, and a hint."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.importers.adopt.locate import locate
from extractor.pipeline.source import directory
from extractor.project import journal
from extractor.values import limits
from extractor.values.errors import SourceError, UsageError
from tests.hostile import inputs
from tests.hostile.test_readers import an_end
from tests.lifecycle.worlds import MOVED, NEW, NEW_TREE, OLD, OLD_TREE, create, edit, ready
from tests.source import archives

pytestmark = pytest.mark.slow  # all together
PLACES = ("main.py", "toy/protocol.py", "vextract.lock", ".vextract/base.zip", journal.PATH, "toy/custom")
COMMANDS = (("status",), ("diff",), ("upgrade", "--abort"), ("upgrade", "--continue"))


@pytest.fixture(autouse=True)
def _a_fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush nothing, and count as too many files what is made in a moment."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(limits, "MAX_MEMBERS", 200)


def put(path: Path, thing: str) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    inputs.THINGS[thing](path)


def every_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in COMMANDS:
        with an_end():
            code = command([words[0], str(project), *words[1:]])
        said = capsys.readouterr().err
        assert code in (0, 1, 2, 3), (words, said)
        assert code in (0, 1) or "\nhint: " in said, (words, said)


@pytest.mark.parametrize("thing", inputs.THINGS)
def test_anything_where_a_file_should_be(thing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, place in enumerate(PLACES):
        project = create(tmp_path / f"p{number}" / "toy", OLD_TREE, OLD)
        put(project / place, thing)
        every_command(project, capsys)


@pytest.mark.parametrize("tree", inputs.TREES)
def test_anything_in_a_directory(tree: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a project, of a source, and of a fork."""
    project = create(tmp_path / "toy", OLD_TREE, OLD)
    inputs.TREES[tree](project / "toy/custom")
    every_command(project, capsys)

    source = archives.write_tree(tmp_path / "source", {**archives.FILES, "LICENSE": b"a licence\n"})
    inputs.TREES[tree](source / "verl")
    with contextlib.suppress(SourceError), an_end():
        found = directory.read(source)
        assert "verl/protocol.py" in found.files
        assert all(path.isprintable() for path in found.files)

    (tmp_path / "fork").mkdir()
    inputs.TREES[tree](tmp_path / "fork")
    with pytest.raises(UsageError) as refused, an_end():
        locate(tmp_path / "fork", {})
    assert refused.value.hint
    os.system(f"rm -rf '{tmp_path}'")  # some trees are too deep for Python's means


def test_any_text_in_a_module_of_the_owners(tmp_path: Path) -> None:
    """An upgrade keeps it, merges it or calls it a conflict, whatever it is."""
    for name, text in inputs.PYTHON.items():
        project = edit(create(tmp_path / name / "toy", OLD_TREE, OLD))
        (project / "toy/protocol.py").write_bytes(text)
        entry = ready(project, NEW_TREE, NEW, MOVED)
        with an_end():
            entry.run()
        held = b"".join(path.read_bytes() for path in project.rglob("protocol.py*"))
        assert all(line in held for line in text.strip()[:1000].splitlines()), name
