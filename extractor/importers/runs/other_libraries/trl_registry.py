"""Reward functions that a training script knows by names of its own, as `reward_funcs: [accuracy, format]` has them.

Scripts after open-r1's keep them in a dict, `{"accuracy": accuracy_reward, ...}`, in the script or a module of theirs.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from extractor.importers.runs.other_libraries.translation import ScoredBy
from extractor.importers.runs.other_libraries.trl_script import Program, top_names
from extractor.importers.runs.python.given import with_whole_imports
from extractor.values import readers
from extractor.values.errors import UsageError

# How far above a script its packages may lie: src/open_r1/grpo.py imports open_r1.rewards.
_ABOVE = 3


def registered(program: Program, names: Any, weights: Any) -> ScoredBy | None:
    """Return what scores by names that the script has for its functions; None where one of them is no plain function.

    Args:
        program: The script.
        names: One, or a list.
        weights: As many numbers, or None.
    """
    wanted = [names] if isinstance(names, str) else names
    if not isinstance(wanted, list) or not wanted or not all(isinstance(name, str) for name in wanted):
        return None
    for path, text, folder in _modules(program):
        try:
            tree = readers.python(text)
        except SyntaxError:
            continue
        there = set(top_names(tree))
        for known in _dicts(tree):
            functions = tuple(known.get(name, "") for name in wanted)
            if set(functions) <= there and len(set(functions)) == len(functions):
                own = replace(program, rewards=functions, text=text, path=path, is_open=False)
                path, text, folder = _defining(own, functions) or (path, text, folder)
                found = replace(own, text=with_whole_imports(text, path, folder), path=path).scored_by(weights)
                return None if found is None else replace(found, folder=folder)
    return None


def _defining(program: Program, functions: tuple[str, ...]) -> tuple[Path, str, Path] | None:
    """Return the module that defines functions, of a program's own; what else that imports need not come along."""
    for path, text, folder in _modules(program):
        with contextlib.suppress(SyntaxError):
            nodes = readers.python(text).body
            if set(functions) <= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}:
                return path, text, folder
    return None


def _modules(program: Program) -> Iterator[tuple[Path, str, Path]]:
    """Yield the script and the modules of its own that it imports: path, text, and where their imports are found."""
    yield program.path, program.text, program.path.parent
    folders = [program.path.resolve().parent, *program.path.resolve().parents[1 : _ABOVE + 1]]
    for node in ast.walk(readers.python(program.text)):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        roots = folders if node.level == 0 else folders[node.level - 1 : node.level]
        places = [root.joinpath(*node.module.split(".")) for root in roots]
        for root, place in zip(roots, places, strict=True):
            files = [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]
            if files:
                with contextlib.suppress(OSError, UsageError):
                    yield files[0], readers.read_text(files[0]), root
                break


def _dicts(tree: ast.Module) -> Iterator[dict[str, str]]:
    """Yield what dicts with texts for keys say, of those values that are names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield {
                key.value: value.id
                for key, value in pairs
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Name)
            }
