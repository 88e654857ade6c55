"""Headers of vendored files change with the code only, and those of before schema 2 of the lock give way to today's."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.project import base, lock
from extractor.values.tree import File, FileKind, Tree
from tests.lifecycle.releases import Configuration, generated, options_of
from tests.lifecycle.worlds import create, files_of
from tests.releases import ALL, NEWEST, source_of
from tests.rewrite.support import with_former_header

pytestmark = [pytest.mark.usefixtures("verl"), pytest.mark.filterwarnings("ignore:invalid escape sequence")]
OLD, NEW = NEWEST


@pytest.mark.parametrize(
    ("old", "new"),
    [pytest.param(*pair, marks=() if pair == NEWEST else pytest.mark.thorough) for pair in pairwise(ALL)],
)
def test_files_whose_code_is_equal_are_equal_in_two_releases(old: str, new: str) -> None:
    before = {file.path: file for file in generated(Configuration(old)).tree}
    equal = 0
    for file in generated(Configuration(new)).tree:
        was = before.get(file.path)
        if was is None or file.kind is FileKind.HOOK or file.path == "LICENSE.verl":
            continue
        first, _, code = file.data.partition(b"\n")
        former, _, its = was.data.partition(b"\n")
        if code == its:
            assert first == former, file.path
            equal += file.kind is FileKind.VENDORED
        assert old not in first.decode(), file.path
        assert new not in first.decode(), file.path
    assert equal >= (25 if (old, new) == ("0.9.0", "0.9.1") else 1)


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """A project as it was made before: changes stand in headers, and none in the lock."""
    options, source = options_of(Configuration(OLD)), source_of(OLD)
    tree = Tree.of([_formerly(file) for file in generated(Configuration(OLD)).tree])
    project = create(tmp_path / "toy", tree, options)
    locked = lock.Lock.of(tree, options, vextract="0.1.0", source_kind=source.kind, source_sha256=source.sha256)
    text = lock.dump(locked).decode().replace("schema = 2", "schema = 1").rpartition("\n[integrity]\n")[0]
    (project / lock.NAME).write_text(
        f'{text}\n[integrity]\nsha256 = "{lock._compute_body_digest(text)}"\n', encoding="utf-8"
    )
    return project


def _formerly(file: File) -> File:
    if not file.upstream_path or not file.upstream_sha256:
        return file
    body = file.data.decode().partition("\n")[2]
    text = with_former_header(body, OLD, file.upstream_path, file.changes, file.upstream_sha256)
    return replace(file, data=text.encode(), changes=())


def test_an_untouched_project_becomes_a_fresh_one(former: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = former
    for name in ("status", "diff", "sync"):
        assert command([name, str(project)]) == 0
        assert "edited" not in capsys.readouterr().out, name
    assert command(["explain", "agg_loss", str(project)]) == 0
    assert f"\n  release  verl {OLD}, sha256 of that file " in capsys.readouterr().out
    assert command(["upgrade", str(project), "--to", NEW, "--offline"]) == 0
    assert "no conflicts" in capsys.readouterr().out
    tree = generated(Configuration(NEW)).tree
    assert {file.path: file.data for file in tree if file.kind is not FileKind.HOOK} == base.read(
        project, lock.read(project)
    )
    found = files_of(project)
    assert all(found[file.path] == file.data for file in tree if file.kind is not FileKind.HOOK)
    assert (
        lock.read(project).files
        == lock.Lock.of(tree, options_of(Configuration(NEW)), vextract="", source_kind="", source_sha256="").files
    )
