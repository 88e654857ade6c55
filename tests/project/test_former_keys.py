"""A setting's former name is answered with its present one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.support import Configuration, Made
from tests.releases import NEWEST


@pytest.fixture
def newest(made: Callable[[Configuration], Made], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made(Configuration(NEWEST[-1], "hf")).root, tmp_path / "project"))


def _refused(project: Path, *arguments: str) -> str:
    """What `main.py` says about these arguments."""
    command = [sys.executable, "main.py", "--cfg", *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_on_the_command_line(newest: Path) -> None:
    assert _refused(newest, "custom_reward_function.path=mine.py") == (
        "error: custom_reward_function.path is called reward.custom_reward_function.path in this release of verl\n"
        "hint: reward.custom_reward_function.path=mine.py\n"
    )
    assert "hint: +reward.reward_kwargs.weights.acc=1\n" in _refused(
        newest, "+reward_model.reward_kwargs.weights.acc=1"
    )
    # What was renamed and is no part of this project has no other name to offer.
    assert "unknown key reward_model.num_workers" in _refused(newest, "reward_model.num_workers=3")


def test_in_a_file_of_the_owners(newest: Path) -> None:
    (newest / "config/preset/mine.yaml").write_text("reward_model:\n  reward_manager: naive\n")
    assert _refused(newest, "preset=mine") == (
        "error: a file in config/ sets reward_model.reward_manager, which is called reward.reward_manager.name in this"
        " release of verl\nhint: rename it there\n"
    )
