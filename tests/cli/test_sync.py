"""`vextract sync`."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from extractor.project import base, lock
from extractor.project.lock import Lock
from extractor.values.tree import FileKind


def tree(project: Path) -> dict[str, bytes]:
    return {path.relative_to(project).as_posix(): path.read_bytes() for path in project.rglob("*") if path.is_file()}


def strip(project: Path) -> None:
    """Leave what a repository without verl's code would hold."""
    for file in lock.read(project).files:
        if file.kind is FileKind.VENDORED:
            (project / file.path).unlink()
    shutil.rmtree(project / ".vextract")


def relock(project: Path, **changes: object) -> None:
    """Make the lock say something else, with a checksum that fits."""
    from dataclasses import replace

    (project / lock.NAME).write_bytes(lock.dump(replace(lock.read(project), **changes)))


def test_from_the_base_without_a_source(run, project: Path, empty_cache: Path) -> None:
    before = tree(project)
    for removed in ([], ["LICENSE.verl", "toy/vendored/protocol.py"]):
        for path in removed:
            (project / path).unlink()
        result = run("sync", project, "--offline")
        assert (result.code, result.err) == (0, "")
        first, *restored = result.out.splitlines()
        assert first.startswith(f"{len(removed)} files restored, ")
        assert restored == [f"restored  {path}" for path in removed]
        assert tree(project) == before
    assert not empty_cache.exists()


def cut_short(project: Path) -> None:
    (project / base.PATH).write_bytes((project / base.PATH).read_bytes()[:-100])


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (strip, "rebuilt   .vextract/base.zip (.vextract/base.zip is missing)"),
        (cut_short, "is damaged"),
        (lambda project: shutil.rmtree(project / "toy/vendored"), " files restored, "),
    ],
    ids=["all of verl", "the base", "a folder and the packages that hold it"],
)
def test_what_is_gone_comes_back_from_the_source(run, project: Path, harm: Callable[[Path], None], said: str) -> None:
    before = tree(project)
    harm(project)
    result = run("sync", project, code=0)
    assert said in result.out
    assert "removed" not in result.out
    assert tree(project) == before


def test_edits_stay(run, project: Path) -> None:
    edited = {"toy/vendored/protocol.py": b"# edited\n", "config/ppo_trainer.yaml": b"# edited\n"}
    for path, data in edited.items():
        (project / path).write_bytes(data)
    (project / "Makefile").unlink()
    before = tree(project)
    result = run("sync", project, code=0)
    assert "edited    toy/vendored/protocol.py (left as it is)" in result.out
    assert "removed   Makefile (left so; --removed brings it back)" in result.out
    assert tree(project) == before


def test_dry_run_and_json(run, project: Path) -> None:
    (project / "toy/vendored/protocol.py").unlink()
    before = tree(project)
    report = json.loads(run("sync", project, "--dry-run", "--json").out)
    assert report["written"] is False
    assert report["restored"] == ["toy/vendored/protocol.py"]
    assert "1 file would be restored, " in run("sync", project, "--dry-run").out
    assert tree(project) == before


def test_from_a_directory_inside(run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "toy/vendored/protocol.py").unlink()
    monkeypatch.chdir(project / "toy/training")
    assert run("sync").code == 0
    assert (project / "toy/vendored/protocol.py").exists()


def test_bytes_that_cannot_be_had_again(run, project: Path) -> None:
    locked: Lock = lock.read(project)
    from dataclasses import replace

    files = tuple(
        replace(file, sha256="0" * 64) if file.path == "toy/vendored/protocol.py" else file for file in locked.files
    )
    strip(project)
    relock(project, files=files, vextract="0.0.9")
    before = tree(project)
    result = run("sync", project, code=1)
    assert "toy/vendored/protocol.py: vextract 0.0.9 wrote 000000000000, this vextract (0.1.0) emits " in result.err
    assert "-m pip install vextract==0.0.9; or restore" in result.err
    assert tree(project) == before


def test_made_from_another_source(run, project: Path) -> None:
    strip(project)
    locked = lock.read(project)
    relock(project, files=locked.files[:-1], source_kind="checkout", source_sha256="1" * 64)
    result = run("sync", project, code=1)
    assert "hint: the project was made from another source, a checkout (111111111111): pass --from" in result.err


def test_no_source_for_a_missing_base(run, project: Path, empty_cache: Path) -> None:
    strip(project)
    before = tree(project)
    run("sync", project, "--offline", code=3)
    assert tree(project) == before


def test_edited_lock(run, project: Path) -> None:
    text = (project / lock.NAME).read_text()
    (project / lock.NAME).write_text(text.replace('engine = "hf"', 'engine = "vllm"'))
    result = run("sync", project, code=2)
    assert "changed by hand" in result.err


def test_release_that_is_no_longer_supported(run, project: Path) -> None:
    from dataclasses import replace

    strip(project)
    relock(project, options=replace(lock.read(project).options, verl="0.1.0"))
    result = run("sync", project, code=2)
    assert "verl 0.1.0 is not supported" in result.err


def test_not_a_project(run, tmp_path: Path) -> None:
    result = run("sync", tmp_path, code=2)
    assert "not inside a vextract project" in result.err
    assert "vextract new" in result.err


def test_templates_and_packages_come_back_where_that_is_asked_for(run, project: Path) -> None:
    before = tree(project)
    (project / "config/ppo_trainer.yaml").unlink()
    shutil.rmtree(project / "toy/training")
    shown = run("status", project)
    assert "`vextract sync --removed`" in shown.out + shown.err
    assert "config/ppo_trainer.yaml (left so; --removed" in run("sync", project).out
    run("sync", project, "--removed", "--offline", code=0)
    assert tree(project) == before
