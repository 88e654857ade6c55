"""The classes that a run's checkout, or its release of verl, has for a reward manager's name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from extractor.importers.runs.files import Places
from extractor.importers.runs.taken_over import registered
from extractor.pipeline.source import Source
from extractor.values.modules import absolute


@dataclass(frozen=True)
class Manager:
    """A class, the file that it is known by, and how that is imported from which folder.

    Attributes:
        scorer: Module and name of the function that its program scores by.
        scores_each: Whether it scores one response at a time (`run_single`), as those of verl's reward loop do.
    """

    cls: str
    module: str
    place: str
    folder: Path | None
    is_registered: bool
    scorer: tuple[str, str] | None = None
    scores_each: bool = False


def known_as(name: str, places: Places, source: Source) -> Iterator[Manager]:
    """Find the classes that are registered under a name, then those that a program chooses where it is given."""
    decorated = registered.decorator_of(name)
    compared = re.compile(rf"==\s*[\"']{re.escape(name)}[\"']")
    texts = [*_of_checkout(places), *_of_release(source)]
    for place, text, folder in texts:
        if decorated.search(text):
            classes = registered.registered_by(text, decorated)
            if classes:
                module, base = _module(place, folder)
                each = "def run_single(" in text and "def __call__(" not in text
                yield Manager(classes[0], module, place, base, is_registered=True, scores_each=each)
    for place, text, folder in texts:
        if re.search("main|reward", Path(place).name) and compared.search(text):
            chosen = _chosen(registered.tree_of(text), name)
            if chosen is not None:
                module, base = _module(place, folder)
                origin = _origin(registered.tree_of(text), chosen, module, base)
                if origin is not None:
                    yield Manager(chosen, origin, place, base, is_registered=False, scorer=_scorer(text, module))


_Text = tuple[str, str, Path | None]


def _of_checkout(places: Places) -> Iterator[_Text]:
    for place, text in registered.python_files(places):
        yield place, text, places.root


def _of_release(source: Source) -> Iterator[_Text]:
    for path in sorted(source.files):
        if path.endswith(".py") and "reward" in path:
            yield path, source.read(path), None


def _module(place: str, root: Path | None) -> tuple[str, Path | None]:
    """Return the name of the module that a file is, and the folder that it is imported from; None: of the release."""
    parts = Path(place).with_suffix("").parts
    if root is None:
        return ".".join(parts), None
    folder = (root / place).parent
    while (folder / "__init__.py").is_file() and folder != root:
        folder = folder.parent
    return ".".join(Path(place).with_suffix("").parts[len(folder.relative_to(root).parts) :]), folder


def _chosen(tree: ast.Module, name: str) -> str | None:
    """Return the class that is chosen where something equals a name: `if x == "name": manager = Class`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Eq):
            sides = [node.test.left, *node.test.comparators]
            if any(isinstance(side, ast.Constant) and side.value == name for side in sides):
                for item in node.body:
                    if isinstance(item, ast.Assign) and isinstance(item.value, ast.Name):
                        return item.value.id
    return None


def _origin(tree: ast.Module, name: str, module: str, folder: Path | None) -> str | None:
    """Return the module that defines what is imported under a name, followed through packages that hand it on."""
    for _ in range(5):
        if any(isinstance(node, ast.ClassDef) and node.name == name for node in tree.body):
            return module
        found = next(
            (
                absolute(node, module, is_package=False)
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and any((item.asname or item.name) == name for item in node.names)
            ),
            None,
        )
        if found is None or folder is None:
            return found
        path = folder / found.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not file.is_file():
            return found
        module = f"{found}.__init__" if path.is_dir() else found
        tree = registered.tree_of(file)
    return None


def _scorer(text: str, module: str) -> tuple[str, str] | None:
    """Return what a program hands to `run_ppo` as the function that scores: its module and name."""
    tree = registered.tree_of(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "run_ppo":
            given = [*node.args[1:2], *(item.value for item in node.keywords if item.arg == "compute_score")]
            for item in given:
                for place in ast.walk(tree):
                    if isinstance(place, ast.ImportFrom) and isinstance(item, ast.Name):
                        for alias in place.names:
                            if (alias.asname or alias.name) == item.id:
                                return absolute(place, module, is_package=False), alias.name
    return None
