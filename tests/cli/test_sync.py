"""`vextract sync`."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from extractor.project import base, lock
from extractor.values.tree import FileKind
from tests.cli.conftest import relock
from tests.project.support import files_of


def strip(project: Path) -> None:
    """Leave what a repository without verl's code would hold."""
    for file in lock.read(project).files:
        if file.kind is FileKind.VENDORED:
            (project / file.path).unlink()
    shutil.rmtree(project / ".vextract")


def test_from_the_base_without_a_source(run, project: Path, empty_cache: Path) -> None:
    before = files_of(project)
    for removed in ([], ["LICENSE.verl", "toy/vendored/protocol.py"]):
        for path in removed:
            (project / path).unlink()
        result = run("sync", project, "--offline")
        assert (result.code, result.err) == (0, "")
        first, *restored = result.out.splitlines()
        assert first.startswith(f"{len(removed)} files restored, ")
        assert restored == [f"restored  {path}" for path in removed]
        assert files_of(project) == before
    assert not empty_cache.exists()
    strip(project)
    left = files_of(project)
    run("sync", project, "--offline", code=3)  # no source for the base
    assert files_of(project) == left


def cut_short(project: Path) -> None:
    (project / base.PATH).write_bytes((project / base.PATH).read_bytes()[:-100])


def test_what_is_gone_comes_back_from_the_source(run, project: Path) -> None:
    before = files_of(project)
    for harm, said in (
        (strip, "rebuilt   .vextract/base.zip (.vextract/base.zip is missing)"),
        (cut_short, "is damaged"),
        (lambda project: shutil.rmtree(project / "toy/vendored"), " files restored, "),
    ):
        harm(project)
        result = run("sync", project, code=0)
        assert said in result.out
        assert "removed" not in result.out
        assert files_of(project) == before


def test_edits_stay(run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates come back where that is asked for; from a directory inside as well."""
    pristine = files_of(project)
    (project / "config/ppo_trainer.yaml").write_bytes(b"# edited\n")
    shutil.rmtree(project / "toy/training")
    (project / "toy/vendored/protocol.py").unlink()
    before = files_of(project)
    report = json.loads(run("sync", project, "--dry-run", "--json").out)
    assert (report["written"], report["restored"]) == (False, ["toy/vendored/protocol.py"])
    assert files_of(project) == before
    assert "`vextract sync --removed`" in "".join([(shown := run("status", project)).out, shown.err])
    monkeypatch.chdir(project / "toy/custom")
    result = run("sync", code=0)
    assert "edited    config/ppo_trainer.yaml (left as it is)" in result.out
    assert "removed   toy/training/trainer.py (left so; --removed brings it back)" in result.out
    restored = {"toy/vendored/protocol.py": pristine["toy/vendored/protocol.py"]}
    assert files_of(project) == {**before, **restored}
    run("sync", "--removed", "--offline", code=0)
    assert files_of(project) == {**pristine, "config/ppo_trainer.yaml": b"# edited\n"}


def test_a_source_that_gives_other_bytes(run, project: Path) -> None:
    locked, path = lock.read(project), "toy/vendored/protocol.py"
    strip(project)
    files = tuple(replace(file, sha256="0" * 64) if file.path == path else file for file in locked.files)
    relock(project, files=files, vextract="0.0.9")
    before = files_of(project)
    result = run("sync", project, code=1)
    assert f"{path}: vextract 0.0.9 wrote 000000000000, this vextract (0.1.0) emits " in result.err
    assert files_of(project) == before
    relock(project, files=locked.files[:-1], vextract="0.1.0", source_kind="checkout", source_sha256="1" * 64)
    assert "made from another source, a checkout (111111111111): pass --from" in run("sync", project, code=1).err
