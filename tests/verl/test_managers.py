"""A reward manager that a run names and a project has not comes along with what it imports, and is called as it was."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extractor.usecases.fromrun import managers, startable
from extractor.usecases.fromrun.files import Places
from extractor.values.tree import File, FileKind, Tree
from tests.releases import NEWEST, source_of

REGISTRY = """
MANAGERS = {}


def register(name):
    return lambda found: MANAGERS.setdefault(name, found)
"""
TREE = Tree.of(
    [
        File("pkg_of_run/__init__.py", FileKind.TEMPLATE, b""),
        File("pkg_of_run/custom/__init__.py", FileKind.HOOK, b""),
        File("pkg_of_run/custom/reward_manager.py", FileKind.HOOK, b""),
        File(
            "pkg_of_run/vendored/workers/reward_manager/registry.py",
            FileKind.VENDORED,
            REGISTRY.encode(),
            "verl/workers/reward_manager/registry.py",
        ),
    ]
)
KEY = "reward.reward_manager.name"
# As forks of releases without a registry have one: it takes less and returns less than those of today.
CHOOSES = """
import ray


def main(config):
    if config.name == "naive":
        manager = None
    elif config.name == "mine":
        from verl.workers.reward_manager import Mine
        manager = Mine
"""
CLASS = """
from verl.utils.reward_score import _default_compute_score
from verl.utils.reward_score.mine import half


class Mine:
    def __init__(self, tokenizer, num_examine, compute_score=None):
        self.compute_score = compute_score or _default_compute_score

    def __call__(self, data):
        return [half(self.compute_score(item)) for item in data]
"""
REGISTERED = """
from verl.workers.reward_manager.registry import register
from verl.workers.reward_manager.helpers import half


@register("mine")
class Mine:
    pass
"""


def checkout(folder: Path, **files: str) -> Places:
    root = folder / "fork"
    for path, text in {"setup.py": "", **files}.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return Places.of(root / "run.sh", None)


def chosen_by_name(folder: Path, **files: str) -> Places:
    packages = ("", "trainer/", "utils/", "utils/reward_score/", "workers/", "workers/reward_manager/")
    texts = {f"src/verl/{package}__init__.py": "" for package in packages}
    texts["src/verl/workers/reward_manager/__init__.py"] = "from .mine import Mine\n"
    texts["src/verl/workers/reward_manager/mine.py"] = CLASS
    texts["src/verl/trainer/main_ppo.py"] = CHOOSES
    texts["src/verl/utils/reward_score/__init__.py"] = "def _default_compute_score(item):\n    return item + 1\n"
    texts["src/verl/utils/reward_score/mine.py"] = "def half(number):\n    return number / 2\n"
    return checkout(folder, **{**texts, **files})


@pytest.fixture
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path / "project"))
    yield tmp_path / "project"
    for name in [name for name in sys.modules if name.partition(".")[0] == "pkg_of_run"]:
        del sys.modules[name]


def take(places: Places, name: str = "mine") -> tuple[Tree, list[str]]:
    tree, remarks = managers.take(TREE, "pkg_of_run", source_of(NEWEST[-1]), places, {KEY: name})
    return tree, [f"{item.what}: {item.why}" for item in remarks]


def registered(tree: Tree, folder: Path) -> Any:
    for file in tree:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
    importlib.invalidate_caches()
    importlib.import_module("pkg_of_run.custom.reward_manager")
    return importlib.import_module("pkg_of_run.vendored.workers.reward_manager.registry").MANAGERS["mine"]


@pytest.mark.usefixtures("verl")
def test_a_class_that_a_program_chooses_is_called_as_a_project_does(tmp_path: Path, imports: Path) -> None:
    tree, said = take(chosen_by_name(tmp_path))
    assert [line.partition(":")[0] for line in said] == ["changed"]
    manager = registered(tree, imports)(tokenizer=None, num_examine=0, compute_score=None, reward_fn_key="data_source")
    assert manager([1, 3]) == [1.0, 2.0]
    assert manager([1], return_dict=True) == {"reward_tensor": [1.0], "reward_extra_info": {}}
    _, remarks = startable.settle(tree, "pkg_of_run", {KEY: "mine"}, {}, {}, (), Places(()))
    assert remarks == []


@pytest.mark.usefixtures("verl")
def test_what_a_program_hands_over_scores(tmp_path: Path, imports: Path) -> None:
    program = f"from verl.utils.reward_score.mine import tenfold\n{CHOOSES}\n\nrun_ppo(None, tenfold)\n"
    scorer = "def half(number):\n    return number / 2\n\n\ndef tenfold(item):\n    return 10 * item\n"
    files = {"src/verl/trainer/main_ppo.py": program, "src/verl/utils/reward_score/mine.py": scorer}
    tree, _ = take(chosen_by_name(tmp_path, **files))
    assert registered(tree, imports)(tokenizer=None, num_examine=0)([1]) == [5.0]


@pytest.mark.usefixtures("verl")
def test_a_class_that_registers_itself_is_imported(tmp_path: Path, imports: Path) -> None:
    helper = "def half(number):\n    return number / 2\n"
    folder = "verl/workers/reward_manager"
    inits = {f"{path}/__init__.py": "" for path in ("verl", "verl/workers", folder)}
    places = checkout(tmp_path, **inits, **{f"{folder}/mine.py": REGISTERED, f"{folder}/helpers.py": helper})
    tree, said = take(places)
    assert said == [
        f"changed: copied from {folder}/mine.py to pkg_of_run/custom/verl_reward_manager.py, with what it imports"
    ]
    assert registered(tree, imports).__name__ == "Mine"


@pytest.mark.usefixtures("verl")
def test_one_that_cannot_be_imported_here_is_named(tmp_path: Path) -> None:
    own = {"src/verl/workers/reward_manager/mine.py": f"import ray\n{CLASS}"}
    tree, said = take(chosen_by_name(tmp_path, **own))
    assert tree == TREE
    assert said[0].startswith("to do: src/verl/trainer/main_ppo.py has it, and cannot be imported here:")
    assert "ray: no project has it" in said[0]


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("name", ["prime", "nobody-s"])
def test_what_a_project_has_otherwise_or_nobody_has_is_left(tmp_path: Path, name: str) -> None:
    assert take(chosen_by_name(tmp_path), name) == (TREE, [])
