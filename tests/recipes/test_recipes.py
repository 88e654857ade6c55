"""`vextract new --recipe`: the command, and projects of each recipe as their owner finds them."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from extractor.pipeline.generate import list_recipes
from extractor.project import lock
from extractor.values import releases
from extractor.values.options import RECIPES
from tests.project.running import check_forked, check_python, train
from tests.project.support import Configuration, Maker
from tests.releases import ALL, NEWEST

MATHS = ("gsm8k", "reasoning")
Projects = Callable[..., Path]


@pytest.fixture(scope="session")
def of_recipe(made: Maker) -> Callable[..., Path]:
    """A function to a project of a recipe, shared by all tests."""
    return lambda recipe, release=NEWEST[-1]: made(Configuration(release, recipe=recipe)).root


@pytest.mark.parametrize("recipe", MATHS)
def test_a_project_knows_its_recipe_and_what_it_needs(of_recipe: Projects, recipe: str) -> None:
    root = of_recipe(recipe)
    assert lock.read(root).options.recipe == recipe
    assert '"math-verify[antlr4_9_3]>=0.8"' in (root / "pyproject.toml").read_text()
    assert "math-verify==" in (root / "requirements.lock").read_text()
    assert "math-verify" not in (of_recipe("toy") / "pyproject.toml").read_text()
    for words in ("ruff check .", "ruff format --check .", "mypy"):
        check_python(root, "-m", *words.split())


@pytest.mark.parametrize(
    ("recipe", "release"),
    [*((recipe, NEWEST[-1]) for recipe in MATHS), pytest.param("gsm8k", ALL[0], marks=pytest.mark.thorough)],
)
def test_the_hooks_pass_their_own_tests(of_recipe: Projects, recipe: str, release: str) -> None:
    done = check_forked(of_recipe(recipe, release), "-m", "pytest", "-p", "no:cacheprovider", "tests/test_hooks.py")
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), "some were skipped"


def test_a_run_scores_in_processes_and_writes_what_components_were_worth(of_recipe: Projects, tmp_path: Path) -> None:
    root = Path(shutil.copytree(of_recipe("reasoning"), tmp_path / "project"))
    rows = train(root, "local.reward.debug_samples=3", "local.reward.num_workers=2", "local.reward.timeout=30.0")
    assert rows[-1]["reward/unscored/mean"] == 0.0
    assert "reward/format/mean" in rows[-1]
    (log,) = (root / "debug_logs").iterdir()
    text = log.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("step")] == ["step 1", "step 2"]
    for part in ("  reward: ", "    format: ", "    thinking: ", "    answer: ", "  response: "):
        assert text.count(part) == 6


@pytest.mark.thorough
@pytest.mark.parametrize("release", [NEWEST[-1], "0.6.1", ALL[0]])
@pytest.mark.parametrize("recipe", RECIPES)
def test_its_own_tests_pass(of_recipe: Projects, recipe: str, release: str) -> None:
    if recipe not in list_recipes(releases.load(release)):
        pytest.skip("the release does not have what the recipe needs")
    root = of_recipe(recipe, release)
    check_python(root, "-m", "pytest", "-p", "no:cacheprovider", timeout=3600)
