"""Reward managers, which a config chooses by name: those of the project, and those of a release."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from extractor.importers.config.project import python_of
from extractor.importers.config.release import Target
from extractor.values import readers
from extractor.values.modules import module_name

_BASE, _ASKED = "TextRewardManager", ("__call__", "_arguments")


@dataclass(frozen=True)
class ManagerClass:
    """A class of the project that is a reward manager.

    Attributes:
        path: Of its file, below the project.
        name: Of the class.
        own: Whether the file is the owner's, and not upstream's.
        reads_texts: Whether a response's text and its row are all that it scores by.
    """

    path: str
    name: str
    own: bool
    reads_texts: bool

    @property
    def module(self) -> str:
        return module_name(self.path)


def manager_class(project: Path, package: str, name: str) -> ManagerClass | None:
    """Find the class that a project has registered as a reward manager under a name; None: it has none.

    Raises:
        UsageError: a hook is no Python.
    """
    for folder in ("custom", "vendored/workers/reward_manager"):
        for path in readers.python_below(project, f"{package}/{folder}"):
            for node in ast.walk(python_of(project / path)):
                if isinstance(node, ast.ClassDef) and name in _registered(node):
                    defined = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                    plain = any(ast.unparse(base).endswith(_BASE) for base in node.bases)
                    return ManagerClass(path, node.name, folder == "custom", plain and defined.isdisjoint(_ASKED))
    return None


def _registered(node: ast.ClassDef) -> Iterator[str]:
    for item in node.decorator_list:
        named = isinstance(item, ast.Call) and ast.unparse(item.func).rpartition(".")[2] == "register"
        if isinstance(item, ast.Call) and named and item.args and isinstance(item.args[0], ast.Constant):
            yield str(item.args[0].value)


def manager_names(target: Target, folder: str, loader: str) -> frozenset[str]:
    """Return the names of a release's reward managers.

    Args:
        target: The release.
        folder: Where it registers them.
        loader: The function that makes one: before there was a registry it compared names.
    """
    found: set[str] = set(re.findall(r"reward_manager_name == [\"'](\w+)[\"']", loader))
    for path in target.source.files:
        if path.startswith(f"{folder}/") and path.endswith(".py"):
            found.update(re.findall(r"@register\(\s*[\"']([\w-]+)[\"']", target.source.read(path)))
    return frozenset(found)
