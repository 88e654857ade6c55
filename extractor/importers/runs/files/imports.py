"""The imports of a module, and its text with others in their place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from extractor.values import readers
from extractor.values.modules import absolute


@dataclass(frozen=True)
class Name:
    """A name as an import statement binds it.

    Attributes:
        module: Absolute.
        name: What is taken from the module; None for the module itself, "*" for all of it.
        local: What it is called in the importing module.
        needed: Whether the module cannot be imported without it: at its top, and not below `try` or a condition.
    """

    module: str
    name: str | None
    local: str
    needed: bool


def names_of(node: ast.Import | ast.ImportFrom, module: str, *, is_package: bool, needed: bool) -> Iterator[Name]:
    """Yield the names that a statement binds.

    Args:
        node: The statement.
        module: The module that it stands in.
        is_package: Whether that is a package.
        needed: See `Name`.
    """
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield Name(alias.name, None, alias.asname or alias.name, needed)
        else:
            origin = absolute(node, module, is_package=is_package)
            yield Name(origin, alias.name, alias.asname or alias.name, needed)


def statements(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield the import statements of a module, and whether it cannot be imported without each."""
    yield from _below(tree, True)


def _below(node: ast.AST, needed: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, needed
        elif isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Try, ast.If)
            yield from _below(child, needed and not isinstance(child, inner))


# What imports a module by its name, and such a name.
_BY_NAME = ("import_module", "__import__")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def by_name(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the names of modules that code imports by a text: `importlib.import_module("helper")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _BY_NAME and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and _DOTTED.fullmatch(name.value):
                yield name


# From a name to where it is now: a module and a name, of which the name is None for a module; None: it stays.
Moved = Callable[[Name], "tuple[str, str | None] | None"]


def rewritten(text: str, module: str, moved: Moved, *, is_package: bool = False) -> str:
    """Return a module's text with its imports redirected.

    Args:
        text: Of the module.
        module: Its name, for relative imports.
        moved: Where a name is now.
        is_package: Whether it is a package.
    """
    tree, data = readers.python_again(text), text.encode()
    edits: list[tuple[int, int, str]] = []
    starts = _line_starts(text)
    chains: dict[str, str] = {}
    for node, needed in statements(tree):
        names = list(names_of(node, module, is_package=is_package, needed=needed))
        places = [moved(name) for name in names]
        if not any(places):
            continue
        lines = []
        for name, place in zip(names, places, strict=True):
            alias = name.local
            if place is not None and name.name is None and "." in alias:  # import a.b: its uses are renamed
                chains[alias] = alias.replace(".", "_")
                alias = chains[alias]
            lines.append(_line(place or (name.module, name.name), alias, name.name))
        start, end = _span(node, starts)
        room = data[starts[node.lineno - 1] : start].decode()
        edits.append((start, end, "; ".join(lines) if room.strip() else f"\n{room}".join(lines)))
    edits += _renamed(tree, chains, starts)
    edits += _by_name(tree, moved, starts)
    for start, end, new in sorted(edits, reverse=True):
        data = data[:start] + new.encode() + data[end:]
    return data.decode()


def _line(place: tuple[str, str | None], local: str, original: str | None) -> str:
    module, name = place
    if original is None:
        return f"import {module}" if local == module else f"import {module} as {local}"
    if name is None:  # a submodule, taken from its package
        module, _, name = module.rpartition(".")
    return f"from {module} import {name}" + ("" if local == name or name == "*" else f" as {local}")


def _renamed(tree: ast.Module, chains: Mapping[str, str], starts: list[int]) -> Iterator[tuple[int, int, str]]:
    for node in ast.walk(tree) if chains else ():
        if isinstance(node, ast.Attribute):
            chain = ast.unparse(node)
            if chain in chains:
                start, end = _span(node, starts)
                yield start, end, chains[chain]


def _by_name(tree: ast.Module, moved: Moved, starts: list[int]) -> Iterator[tuple[int, int, str]]:
    for node in by_name(tree):
        place = moved(Name(str(node.value), None, str(node.value), needed=False))
        if place is not None:
            start, end = _span(node, starts)
            yield start, end, repr(place[0])


def _span(node: ast.stmt | ast.expr, starts: list[int]) -> tuple[int, int]:
    """Return the bytes that a node takes."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.encode().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts
