"""A project's own tests pass, and what `more/` asks of the same modules, which is run beside them in a project."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.running import forked
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
    for file in sorted((Path(__file__).parent / "more").glob("*.py")):
        shutil.copyfile(file, root / "tests" / f"test_more_{file.name}")
    done = forked(root, "-m", "pytest", "-q", "-x")
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout or "100%" in done.stdout


@pytest.mark.parametrize(
    "name",
    [
        "process_rewards",
        # In tests/server what a teacher says is compared with real vLLM's.
        *(pytest.param(name, marks=pytest.mark.thorough) for name in ("distillation", "served_teacher")),
    ],
)
def test_what_is_added_to_rewards_is_as_said(made: Callable[[Configuration], Made], tmp_path: Path, name: str) -> None:
    """PRIME by numbers worked out by hand, distillation by what its teacher says: in the projects' own tests."""
    root = made(Configuration(NEWEST[-1], "hf", features=("critic", "distillation", "prime"))).root
    copied = Path(shutil.copytree(root, tmp_path / "project"))
    done = forked(copied, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/test_{name}.py")
    assert done.returncode == 0, done.stdout[-3000:]
