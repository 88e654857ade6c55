"""Hooks are never written again, so what they import is in every project, whichever release it is taken to."""

import ast
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from extractor.pipeline.generate import list_recipes
from extractor.values import releases
from extractor.values.moved_modules import rename_module
from extractor.values.options import RECIPES
from extractor.values.tree import FileKind
from tests.project.running import check_forked, train
from tests.project.support import PACKAGE, Configuration, Made, Maker, copy_of, vextract
from tests.releases import ALL, NEWEST, newest_release

FIRST, LAST = ALL[0], NEWEST[-1]
REGISTRIES = ["get_adv_estimator_fn", "get_policy_loss_fn", "register_adv_est", "register_policy_loss"]
# What hooks, and the tests that came with them, may import from their package, whichever release of verl it is
# made for or taken to; other names may go with an upgrade. Module below the package -> names in it.
SURFACE = {
    "data.datasets": ["DataError"],
    "data.dataloading": ["encoded"],
    "data.rows": ["RowsDataset", "rows_of_environment"],
    "vendored.data.rl_dataset": ["RLHFDataset"],
    "data.toy": ["ensure_toy_model"],
    "vendored.protocol": ["DataProto"],
    "rewards.scoring": ["resolved"],
    "rewards.manager": ["GIVEN", "TextRewardManager"],
    "vendored.algorithms.core_algos": ["agg_loss", *REGISTRIES],
    "registries": ["ADV_ESTIMATOR_REGISTRY", *REGISTRIES],
    "vendored.utils.torch_functional": ["masked_mean"],
    "vendored.workers.reward_manager.registry": ["register"],
}
# The same for projects of a recipe that brings problems of its own; a project keeps its recipe and what that needs.
OF_RECIPES = {
    "data.hub": ["load_rows", "rows_unless_sample"],
    "data.problems": ["TRAIN", "VAL"],
    "rewards.components": ["ComponentError", "WeightedComponents"],
    "rewards.text": ["final_answer", "has_form", "length_share", "repeated_share", "tagged", "tags_once", "tags_share"],
    "rewards.verified_math": ["same_answer"],
}
# What hooks were told to import before modules moved.
STATED_FORMERLY = (
    "data.rl_dataset",
    "protocol",
    "training.core_algos",
    "utils.torch_functional",
    "workers.reward_manager.registry",
)
STEP = ("algorithm.adv_estimator=group_rank", "trainer.total_training_steps=1", "local.num_threads=1")


def imported(text: str, path: str) -> Iterator[tuple[str, str]]:
    """(module below the package, name) of each import from the project's own package, its hooks apart."""
    here = PurePosixPath(path).with_suffix("").parts
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            base = [*here[: -node.level]] if node.level else []
            dotted = [*base, *(node.module or "").split(".")]
            if dotted[0] == PACKAGE and dotted[1:2] != ["custom"]:
                for alias in node.names:
                    whole = [*dotted[1:], alias.name]
                    if whole != ["custom"]:
                        yield ".".join(whole[:-1]), alias.name


def check_offered(made: Made, stated: dict[str, list[str]]) -> None:
    """A project has these modules, with these names in them."""
    lines = [f"from {PACKAGE}.{module} import {', '.join(names)}" for module, names in stated.items()]
    check_forked(made.root, "-c", "\n".join(lines))


@pytest.mark.parametrize(("recipe", "release"), [*((recipe, LAST) for recipe in RECIPES), ("toy", FIRST)])
def test_hooks_import_what_is_stated_and_nothing_else(made: Maker, recipe: str, release: str) -> None:
    project = made(Configuration(release, recipe=recipe))
    stated = {**SURFACE, **OF_RECIPES, "data": ["problems"]}
    for file in project.generated.tree:
        if file.kind is FileKind.HOOK and file.path.endswith(".py"):
            for module, name in imported(file.data.decode(), file.path):
                assert name in stated.get(module, ()), f"{file.path} imports {name} from {module}"
    if recipe in ("gsm8k", "reasoning"):
        check_offered(project, OF_RECIPES)


@pytest.mark.parametrize("release", newest_release("0.4.0", "0.7.0"))
def test_every_release_has_what_hooks_may_import(made: Maker, release: str) -> None:
    check_offered(made(Configuration(release, "hf")), SURFACE)


@pytest.mark.parametrize(("before", "after"), [(FIRST, LAST), (LAST, FIRST)])
def test_a_project_trains_after_an_upgrade_and_after_the_way_back(
    made: Maker, tmp_path: Path, before: str, after: str
) -> None:
    """Its hooks are those of the release that it was made with."""
    root = copy_of(made(Configuration(before, "hf")), tmp_path)
    done = vextract("upgrade", ".", "--to", after, "--offline", cwd=root)
    assert done.returncode == 0, done.stderr
    assert train(root, *STEP)[-1]["step"] == 1


def test_former_names_mean_the_modules_of_today(made: Maker) -> None:
    """As hooks of earlier projects import them: in any order, and also what is in a package that has moved."""
    project = made(Configuration(LAST, "hf", features=("former_names",)))
    names = STATED_FORMERLY
    assert {rename_module(name) for name in names} <= {*SURFACE, *OF_RECIPES}
    code = (
        "import sys; from importlib import import_module\n"
        "for pair in sys.argv[1:]:\n"
        "    former, now = pair.split('=')\n"
        "    assert import_module(former) is import_module(now), pair\n"
    )
    pairs = [f"{PACKAGE}.{name}={PACKAGE}.{rename_module(name)}" for name in names]
    check_forked(project.root, "-c", code, *pairs)


def test_a_new_hook_reaches_a_project_that_is_upgraded(made: Maker, tmp_path: Path) -> None:
    """Its own `custom/__init__.py` is from a time when there was no such hook, and no upgrade writes it."""
    root = copy_of(made(Configuration(LAST, "hf")), tmp_path)
    init = root / PACKAGE / "custom/__init__.py"
    init.write_text("from . import reward_manager\n", encoding="utf-8")
    assert train(root, *STEP)[-1]["step"] == 1
    assert init.read_text(encoding="utf-8") == "from . import reward_manager\n"
    (root / PACKAGE / "custom/algorithms.py").unlink()  # and one that its owner has no use for is not missed
    assert train(root, *STEP[1:])[-1]["step"] == 1


@pytest.mark.thorough
@pytest.mark.parametrize("release", ALL)
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_hooks_of_every_release_train_under_every_other(
    made: Maker, tmp_path: Path, recipe: str, release: str
) -> None:
    if recipe not in list_recipes(releases.load(release)):
        pytest.skip("the release does not have what the recipe needs")
    texts: dict[tuple[bytes, ...], str] = {}  # the distinct ones, each with the first release that has it
    for each in ALL:
        if recipe in list_recipes(releases.load(each)):
            files = made(Configuration(each, "hf", recipe=recipe)).generated.tree
            texts.setdefault(tuple(file.data for file in files if file.kind is FileKind.HOOK), each)
    for writer in texts.values():
        root = copy_of(made(Configuration(release, "hf", recipe=recipe)), tmp_path / f"hooks_of_{writer}")
        for file in made(Configuration(writer, "hf", recipe=recipe)).generated.tree:
            if file.kind is FileKind.HOOK:
                (root / file.path).write_bytes(file.data)
        assert train(root, *STEP)[-1]["step"] == 1
        tests = [f"tests/{name}.py" for name in ("test_hooks", "test_algorithms")]
        check_forked(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
