"""`vextract new --recipe`: the command, and projects of each recipe as their owner finds them."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest
from omegaconf import OmegaConf

from extractor.pipeline.generate import list_recipes
from extractor.pipeline.source import Source
from extractor.project import lock
from extractor.values import releases
from extractor.values.options import RECIPES
from extractor.values.resources import find_templates
from tests.project.running import check_forked, check_python, forked, train
from tests.project.support import Configuration, Maker, make, vextract
from tests.releases import ALL, NEWEST

MATHS = ("gsm8k", "reasoning")
Projects = Callable[..., Path]


@pytest.fixture(scope="session")
def of_recipe(made: Maker) -> Callable[..., Path]:
    """A function to a project of a recipe, shared by all tests."""
    return lambda recipe, release=NEWEST[-1]: made(Configuration(release, recipe=recipe)).root


def test_an_unknown_recipe_is_an_error_that_names_the_known_ones(tmp_path: Path, newest_verl: Source) -> None:
    done = vextract("new", "p", "--recipe", "gsm9k", "--offline", cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "p").exists()
    assert "gsm9k" in done.stderr
    assert "hint:" in done.stderr
    assert all(recipe in done.stderr for recipe in RECIPES)


@pytest.mark.parametrize("recipe", MATHS)
def test_a_project_knows_its_recipe_and_what_it_needs(of_recipe: Projects, recipe: str) -> None:
    root = of_recipe(recipe)
    assert lock.read(root).options.recipe == recipe
    assert '"math-verify[antlr4_9_3]>=0.8"' in (root / "pyproject.toml").read_text()
    assert "math-verify==" in (root / "requirements.lock").read_text()
    assert "math-verify" not in (of_recipe("toy") / "pyproject.toml").read_text()
    for words in ("check", "format --check"):  # types are checked by tests/project/test_trees.py
        command = [sys.executable, "-m", "ruff", *words.split(), "."]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("recipe", MATHS)
def test_a_recipe_differs_in_hooks_data_and_config_only(of_recipe: Projects, recipe: str, tmp_path: Path) -> None:
    def contents(project: Path) -> dict[str, bytes]:
        files = [path for path in project.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        return {path.relative_to(project).as_posix(): path.read_bytes() for path in files}

    features = lock.read(of_recipe(recipe)).options.features  # those that the recipe needs
    toy = make(Configuration(NEWEST[-1], features=features), tmp_path / "toy").root
    ours, theirs = contents(of_recipe(recipe)), contents(toy)
    changed = sorted(path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path))
    generated = ("vextract.lock", "toy/shipped.json", "README.md", "pyproject.toml", "requirements.lock")
    places = ("toy/custom/", "toy/data/problems.py", "config/", "tests/", *generated)
    # Caches, checkpoints and the like are what other tests have left.
    assert [path for path in changed if not path.startswith((*places, ".", "checkpoints/"))] == []


@pytest.mark.parametrize(
    ("recipe", "release"),
    [*((recipe, NEWEST[-1]) for recipe in MATHS), pytest.param("gsm8k", ALL[0], marks=pytest.mark.thorough)],
)
def test_the_hooks_pass_their_own_tests(of_recipe: Projects, recipe: str, release: str) -> None:
    done = check_forked(of_recipe(recipe, release), "-m", "pytest", "-p", "no:cacheprovider", "tests/test_hooks.py")
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), "some were skipped"


def test_prepare_without_a_network_says_so_and_writes_the_sample(of_recipe: Projects, tmp_path: Path) -> None:
    done = check_forked(of_recipe("gsm8k"), "-m", "toy.data.prepare", "--out", str(tmp_path / "data"))
    assert "NOTE: cannot load" in done.stdout
    assert "handmade problems" in done.stdout
    rows = pyarrow.parquet.read_table(tmp_path / "data" / "train.parquet").to_pylist()
    assert len(rows) == 24
    assert {row["data_source"] for row in rows} == {"gsm8k_sample"}
    assert {"prompt", "ability", "reward_model", "extra_info"} < rows[0].keys()


def test_a_run_scores_in_processes_and_leaves_none(of_recipe: Projects) -> None:
    rows = train(of_recipe("gsm8k"), "local.reward.num_workers=2", "local.reward.timeout=30.0")
    assert rows[-1]["reward/unscored/mean"] == 0.0
    assert "reward/format/mean" in rows[-1]


def test_a_run_writes_what_components_were_worth(of_recipe: Projects, tmp_path: Path) -> None:
    root = Path(shutil.copytree(of_recipe("reasoning"), tmp_path / "project"))
    train(root, "local.reward.debug_samples=3")
    (log,) = (root / "debug_logs").iterdir()
    assert re.fullmatch(r"default_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.txt", log.name)
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


@pytest.mark.parametrize("recipe", [*MATHS, "multiturn"])
def test_a_recipe_s_sizes_are_its_own_in_each_release(of_recipe: Projects, recipe: str) -> None:
    sizes_of_the_project = (of_recipe(recipe) / "config/scale/toy.yaml").read_text()
    own = (find_templates() / f"recipe/{recipe}/config/scale/toy.yaml").read_text()
    sizes = [line for line in own.splitlines() if "_length: " in line or "batch_size: " in line]
    assert sizes
    assert [line for line in sizes if line not in sizes_of_the_project] == []


@pytest.mark.thorough
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.usefixtures("verl")
def test_the_toy_model_s_short_answers_cost_nothing_whatever_the_algorithm(tmp_path: Path, recipe: str) -> None:
    for release, key in (
        (NEWEST[-1], "reward.reward_kwargs.overlong_buffer_cfg"),
        ("0.6.1", "reward_model.overlong_buffer"),
    ):
        if recipe not in list_recipes(releases.load(release)):
            continue
        root = make(Configuration(release, recipe=recipe, features=("dynamic_sampling",)), tmp_path / release).root
        done = forked(root, "main.py", "--cfg", "preset=dapo")
        overlong = OmegaConf.select(OmegaConf.create(done.stdout), key)
        assert overlong.len == 128
        assert not overlong.enable
