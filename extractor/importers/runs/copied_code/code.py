"""The Python code of a checkout: its files, what they register and define, the settings that they read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from extractor.importers.runs.places import RunFolders
from extractor.pipeline.index.syntax import attribute_chain
from extractor.values import limits, readers
from extractor.values.errors import UsageError

_MOST_FILES = 4000


def tree_of(text: str) -> ast.Module:
    """Parse a file of a checkout. Nobody may have run it: one that is no Python defines nothing."""
    try:
        return readers.python(text)
    except SyntaxError:
        return ast.Module([], [])


def python_files(places: RunFolders) -> Iterator[tuple[str, str]]:
    """Yield the path, below its root, and the text of the checkout's Python files."""
    root = places.root
    if root is None:
        return
    try:
        below = readers.files_below(root, lambda folder: not folder.name.startswith("."))
        found = sorted(file for file in below if file.suffix == ".py")
    except OSError:
        return
    for file in found[:_MOST_FILES]:
        try:
            yield file.relative_to(root).as_posix(), readers.python_text(readers.read_bytes(file, limits.MAX_TEXT))
        except (OSError, SyntaxError, UsageError, UnicodeDecodeError):
            continue


def registered_by(text: str, decorator: re.Pattern[str]) -> list[str]:
    """Return the names of a module's definitions that carry a decorator."""
    return [
        node.name
        for node in tree_of(text).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and any(decorator.match(f"@{ast.unparse(item)}") for item in node.decorator_list)
    ]


def required_by(function: ast.FunctionDef) -> list[str]:
    """Return the arguments that a function must be given."""
    given = [*function.args.posonlyargs, *function.args.args]
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    needed = given[: len(given) - len(function.args.defaults)]
    return [item.arg for item in (*needed, *(item for item, default in named if default is None))]


def class_of(tree: ast.AST, name: str) -> ast.ClassDef | None:
    """Return a module's class of a name."""
    return next((node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name), None)


def method_of(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """Return the method that a class itself defines under a name."""
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)


def settings_read(texts: Iterable[str]) -> set[str]:
    """Return the settings that code reads of `config` or `self.config`, as far as one expression names them."""
    found = {".".join([*chain, *([name] if name else [])]) for text in texts for chain, name in _reads_of_config(text)}
    return {key for key in found if not any(other.startswith(f"{key}.") for other in found)}


def _reads_of_config(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the attributes of a config that code names, and the key that it asks these for."""
    for node in ast.walk(tree_of(text)):
        asked: ast.expr | None = None
        chain = attribute_chain(node)
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(".get"):
            chain, asked = attribute_chain(node.func), node.args[0]
        elif isinstance(node, ast.Subscript):
            chain, asked = attribute_chain(node.value), node.slice
        chain = chain[:-1] if chain[-1:] == ("get",) else chain
        chain = chain[1:] if chain[:2] == ("self", "config") else chain
        name = asked.value if isinstance(asked, ast.Constant) and isinstance(asked.value, str) else ""
        if chain[:1] == ("config",) and (name or len(chain) > 1):
            yield chain[1:], name
