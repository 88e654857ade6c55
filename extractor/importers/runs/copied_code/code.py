"""Find a checkout's Python files and what they define."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from extractor.importers.runs.places import RunFolders
from extractor.values import limits, readers
from extractor.values.errors import UsageError

_MOST_FILES = 4000


def list_python_files(places: RunFolders) -> Iterator[tuple[str, str]]:
    """Yield path and text of the checkout's Python files."""
    root = places.root
    if root is None:
        return
    try:
        below = readers.list_files_below(root, lambda folder: not folder.name.startswith("."))
        found = sorted(file for file in below if file.suffix == ".py")
    except OSError:
        return
    for file in found[:_MOST_FILES]:
        try:
            yield file.relative_to(root).as_posix(), readers.decode_python(readers.read_bytes(file, limits.MAX_TEXT))
        except (OSError, SyntaxError, UsageError, UnicodeDecodeError):
            continue


def list_registered_by(text: str, decorator: re.Pattern[str]) -> list[str]:
    """Return the names of a module's definitions that carry a decorator."""
    return [
        node.name
        for node in readers.parse_python_or_nothing(text).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and any(decorator.match(f"@{ast.unparse(item)}") for item in node.decorator_list)
    ]


def list_required_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the arguments that a function must be given."""
    given = [*function.args.posonlyargs, *function.args.args]
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    needed = given[: len(given) - len(function.args.defaults)]
    return [item.arg for item in (*needed, *(item for item, default in named if default is None))]


def map_methods(tree: ast.AST, cls: str) -> dict[str, ast.FunctionDef]:
    """Return the methods that a module's class defines, by name."""
    own = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls)
    return {item.name: item for node in own for item in node.body if isinstance(item, ast.FunctionDef)}


def drop_decorators(text: str, pattern: str) -> str:
    """Return a module's text without matching decorators at its top."""
    lines = text.split("\n")
    for node in reversed(readers.parse_python_or_nothing(text).body):
        for item in reversed(getattr(node, "decorator_list", ())):
            if re.fullmatch(pattern, ast.unparse(item).rpartition(".")[2]):
                del lines[item.lineno - 1 : item.end_lineno]
    return "\n".join(lines)
