"""A project's own tests pass, and what `more/` asks of the same modules, which is run beside them in a project."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.project.running import check_forked
from tests.project.support import Configuration, Maker, copy_of
from tests.releases import NEWEST

pytestmark = pytest.mark.slow
MORE = Path(__file__).parent / "more"


CONFIGURATIONS = [
    Configuration(NEWEST[-1], "hf"),
    pytest.param(Configuration("0.6.1", "hf", everything=True), marks=pytest.mark.thorough),
]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_the_projects_own_tests_pass(made: Maker, tmp_path: Path, configuration: Configuration) -> None:
    root = copy_of(made(configuration), tmp_path)
    assert_pass(root)


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_what_more_is_asked_of_a_project(made: Maker, tmp_path: Path, configuration: Configuration) -> None:
    if not configuration.everything:
        features = ("dataset_classes", "logits_in_pieces", "overlong_penalty", "provenance", "reward_logs", "watch")
        configuration = replace(configuration, features=features)
    root = copy_of(made(configuration), tmp_path)
    names = [f"tests/test_more_{file.name}" for file in sorted(MORE.glob("*.py"))]
    for name in names:
        shutil.copyfile(MORE / name.removeprefix("tests/test_more_"), root / name)
    assert_pass(root, *names)


def assert_pass(root: Path, *files: str) -> None:
    done = check_forked(root, "-m", "pytest", "-q", "-x", *files)
    assert " passed" in done.stdout or "100%" in done.stdout


@pytest.mark.parametrize("name", ["process_rewards", pytest.param("distillation", marks=pytest.mark.thorough)])
def test_what_is_added_to_rewards_is_as_said(made: Maker, tmp_path: Path, name: str) -> None:
    """PRIME by numbers worked out by hand, distillation by what its teacher says: in the projects' own tests."""
    root = copy_of(made(Configuration(NEWEST[-1], "hf", everything=True)), tmp_path)
    assert_pass(root, f"tests/test_{name}.py")
