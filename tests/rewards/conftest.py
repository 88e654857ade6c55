"""The library, importable as `reward_library` here and in the processes that it starts."""

import importlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from extractor.pipeline.render.fold import fold, read_constants
from tests.project.support import REPOSITORY

SWITCHES = REPOSITORY / "templates/base/__package__/switches.py"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory on the path that holds the library, and functions to score with."""
    place = tmp_path_factory.mktemp("library")
    names = ("math", "overlong_penalty", "reward_logs", "reward_model", "reward_processes", "reward_rules", "sandbox")
    layers = ("base", "engine/time_limit", *(f"feature/{name}" for name in names))
    parts = [REPOSITORY / "templates" / layer / "__package__/rewards" for layer in layers]
    for part in parts:
        shutil.copytree(part, place / "reward_library", dirs_exist_ok=True)
    attacked = place / "attacked"  # as `vextract attack` finds it: beside the rewards, in a project's package
    for part in parts:
        shutil.copytree(part, attacked / "rewards", dirs_exist_ok=True)
    found = {name: name.lower() in names for name in read_constants(SWITCHES.read_text(encoding="utf-8"))}
    for path in (*place.glob("reward_library/**/*.py"), *attacked.glob("rewards/**/*.py")):
        path.write_text(fold(path.read_text(encoding="utf-8"), found), encoding="utf-8")
    shutil.copytree(REPOSITORY / "templates/command/attack", attacked / "attack")
    (attacked / "__init__.py").touch()
    shutil.copy(Path(__file__).with_name("functions.py"), place / "scored_by.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place))
        yield place


@pytest.fixture(scope="session")
def library(folder: Path) -> Callable[[str], ModuleType]:
    """A module of the library by its name."""
    return lambda name: importlib.import_module(f"reward_library.{name}")


@pytest.fixture(scope="session")
def attacks(folder: Path) -> Callable[[str], ModuleType]:
    """A module of `vextract attack` by its name."""
    return lambda name: importlib.import_module(f"attacked.attack.{name}")


@pytest.fixture(scope="session")
def functions(folder: Path) -> ModuleType:
    """The functions to score with, as a module that worker processes find as well."""
    return importlib.import_module("scored_by")
