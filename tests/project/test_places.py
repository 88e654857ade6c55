"""Projects in hard places: moved, renamed, under odd names, or nowhere to be written at all."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.support import PACKAGE, REPOSITORY, files_of, vextract
from tests.releases import NEWEST

HARD = ["with space", "ünïcode 模型", "quote's & $dollar;", "-dash"]


@pytest.fixture
def moved(project: Path, tmp_path: Path) -> Path:
    """A project that was renamed, and moved to another directory, after it was made."""
    target = tmp_path / "somewhere else" / "ümbenannt"
    target.parent.mkdir()
    shutil.move(project, target)
    return target


def test_a_moved_project_can_be_restored(moved: Path) -> None:
    before = files_of(moved)
    (moved / PACKAGE / "vendored/algorithms/core_algos.py").unlink()
    (moved / PACKAGE / "vendored/protocol.py").unlink()
    done = vextract("sync", "--offline", cwd=moved)
    assert done.returncode == 0, done.stderr
    assert f"restored  {PACKAGE}/vendored/protocol.py" in done.stdout
    assert files_of(moved) == before


def test_a_moved_project_can_be_explained(moved: Path) -> None:
    done = vextract("explain", "compute_advantage", str(moved), "--offline", cwd=moved.parent)
    assert done.returncode == 0, done.stderr
    assert f"in       {PACKAGE}/vendored/algorithms/trainer_functions.py" in done.stdout
    assert "warning" not in done.stderr


def test_a_moved_project_can_be_imported(moved: Path) -> None:
    code = f"import {PACKAGE}.shims.stand_ins as module; print(module.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=moved, capture_output=True, check=True)
    assert Path(os.fsdecode(done.stdout.strip())) == moved / PACKAGE / "shims/stand_ins.py"


@pytest.mark.parametrize("name", HARD)
def test_hard_names(name: str, project: Path, tmp_path: Path) -> None:
    """What `vextract sync` does for every command: find the project, read it, write into it."""
    target = tmp_path / name
    project.rename(target)
    (target / PACKAGE / "vendored/protocol.py").unlink()
    for arguments, cwd in (([], target), (["--", name], tmp_path), ([str(target)], Path("/"))):
        (target / PACKAGE / "vendored/protocol.py").unlink(missing_ok=True)
        done = vextract("sync", "--offline", *arguments, cwd=cwd)
        assert done.returncode == 0, done.stderr
        assert (target / PACKAGE / "vendored/protocol.py").exists()


def test_no_network(tmp_path: Path) -> None:
    """An index that does not answer, and nothing in any cache."""
    work = tmp_path / "work"
    work.mkdir()
    done = vextract(
        "new",
        "toy",
        cwd=work,
        env={
            "VEXTRACT_CACHE_DIR": str(tmp_path / "cache"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_FIND_LINKS": "",
            "PIP_NO_CACHE_DIR": "1",
            "PIP_RETRIES": "0",
            "PIP_TIMEOUT": "2",
        },
    )
    assert done.returncode == 3, done.stderr
    error, hint = done.stderr.splitlines()
    assert error.startswith(f"error: verl {NEWEST[-1]} could not be downloaded: ")
    assert hint.startswith("hint: check the network and pip's index settings")
    assert done.stdout == ""
    assert os.listdir(work) == []
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_no_index(tmp_path: Path) -> None:
    done = vextract(
        "new",
        "toy",
        cwd=tmp_path,
        env={
            "VEXTRACT_CACHE_DIR": str(tmp_path / "cache"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": "",
            "PIP_NO_CACHE_DIR": "1",
        },
    )
    assert done.returncode == 3, done.stderr
    assert "hint: " in done.stderr
    assert not (tmp_path / "toy").exists()


def _like_anybody() -> None:
    """Root may write everywhere; without the capability for that it is bound to permissions like any other user."""
    if os.geteuid() == 0:
        drop_from_bounding_set, override_permissions = 24, 1
        ctypes.CDLL(None).prctl(drop_from_bounding_set, override_permissions, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
def test_a_parent_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-m", "extractor", "new", str(tmp_path / "toy")],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_like_anybody,
    )
    tmp_path.chmod(0o755)
    assert done.returncode == 2, done.stderr
    assert f"{tmp_path} is not writable" in done.stderr
    assert "hint: " in done.stderr
    assert os.listdir(tmp_path) == []
