"""A project's own tests pass: they take longer than all of a file's others here, and have one of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.running import python
from tests.project.support import Configuration, Made
from tests.releases import NEWEST

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "configuration",
    [
        Configuration(NEWEST[-1], "hf"),
        pytest.param(Configuration("0.6.1", "hf", everything=True), marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_the_projects_own_tests_pass(
    made: Callable[[Configuration], Made], tmp_path: Path, configuration: Configuration
) -> None:
    root = Path(shutil.copytree(made(configuration).root, tmp_path / "project"))
    done = python(root, "-m", "pytest", "-q", "-x")
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout or "100%" in done.stdout


def test_prime_computes_what_the_paper_says(made: Callable[[Configuration], Made]) -> None:
    """By the numbers worked out by hand in the project's own test."""
    root = made(Configuration(NEWEST[-1], "hf", features=("critic", "prime"))).root
    done = python(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_process_rewards.py")
    assert done.returncode == 0, done.stdout[-3000:]
