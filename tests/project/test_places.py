"""Projects in hard places: moved, renamed, under odd names."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.support import PACKAGE, files_of, vextract

HARD = ["with space", "ünïcode 模型", "quote's & $dollar;", "-dash"]


def test_a_project_that_was_moved_and_renamed(project: Path, tmp_path: Path) -> None:
    """It can be restored, explained and imported."""
    moved = tmp_path / "somewhere else" / "ümbenannt"
    moved.parent.mkdir()
    shutil.move(project, moved)
    before = files_of(moved)
    for name in ("algorithms/core_algos.py", "protocol.py"):
        (moved / PACKAGE / "vendored" / name).unlink()
    done = vextract("sync", "--offline", cwd=moved)
    assert done.returncode == 0, done.stderr
    assert f"restored  {PACKAGE}/vendored/protocol.py" in done.stdout
    assert files_of(moved) == before
    done = vextract("explain", "compute_advantage", str(moved), "--offline", cwd=moved.parent)
    assert done.returncode == 0, done.stderr
    assert f"in       {PACKAGE}/vendored/algorithms/trainer_functions.py" in done.stdout
    assert "warning" not in done.stderr
    code = f"import {PACKAGE}.shims.stand_ins as module; print(module.__file__)"
    shown = subprocess.run([sys.executable, "-c", code], cwd=moved, capture_output=True, check=True).stdout
    assert Path(os.fsdecode(shown.strip())) == moved / PACKAGE / "shims/stand_ins.py"


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
