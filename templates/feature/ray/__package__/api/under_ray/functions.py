# vextract:template - edit freely
"""Functions that other processes are to import: where they are."""

import ast
import inspect
import sys
from pathlib import Path
from typing import Any

from ...errors import ConfigError

TOP = "define it by `def` or `class` at the top of a file"


def place_of(function: Any, what: str = "reward") -> tuple[Path, str]:
    """Return the file of a function or class, and its name there, by which other processes import it.

    Args:
        function: a reward function, or what makes environments.
        what: it is for, as messages call it.

    Raises:
        ConfigError: they could not, or importing the file would run what runs here.
    """
    if not (inspect.isfunction(function) or inspect.isclass(function)):
        kind = type(function).__name__
        raise ConfigError(f"verl's workers import the {what} by its name, and an object ({kind}) has none", TOP)
    name = function.__qualname__
    if not name.isidentifier():
        it = "a lambda" if function.__name__ == "<lambda>" else f"{name}, which is not at the top of a file"
        raise ConfigError(f"verl's workers import the {what} by its name, and cannot import {it}", TOP)
    file = Path(inspect.getsourcefile(function) or "")
    if not file.is_file():
        raise ConfigError(
            f"verl's workers import the {what} from its file, and {name} has none",
            "write it into a file, and import it from there: a cell of a notebook is none",
        )
    if getattr(sys.modules.get(function.__module__), name, None) is not function:
        raise ConfigError(f"{name} is not what its file {file} has under that name", TOP)
    if function.__module__ == "__main__":
        _check_guarded(file)
    return file.resolve(), name


def _check_guarded(file: Path) -> None:
    """Refuse a script that would train again where it is imported."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            continue
        if any(isinstance(item, ast.Call) and _is_create(item.func) for item in ast.walk(node)):
            raise ConfigError(
                f"line {node.lineno} of {file} would run again in verl's workers, which import rewards from it",
                'put what runs under `if __name__ == "__main__":`, or rewards into a file of its own',
            )


def _is_create(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    return name == "create_trainer"
