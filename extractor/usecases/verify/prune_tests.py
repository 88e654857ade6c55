"""Keep those of upstream's tests that need only what a project has."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from extractor.pipeline.index.syntax import first_line
from extractor.pipeline.slicer import NotKept, Resolver
from extractor.usecases.verify.scopes import Analysis, ImportedName, ImportedUse
from extractor.values import readers

_NONE: Mapping[str, Sequence[str]] = MappingProxyType({})
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Pruned:
    """One test file.

    Attributes:
        path: "tests/trainer/ppo/test_core_algos_on_cpu.py".
        text: The text without what cannot run; empty where no test is left.
        kept: Names of the tests that stay ("TestX::test_y").
        dropped: Name and reason of those that went.
    """

    path: str
    text: str
    kept: tuple[str, ...]
    dropped: tuple[tuple[str, str], ...]


@dataclass
class _Unit:
    """A top-level statement, or a method of a top-level class."""

    name: str
    first: int
    last: int
    binds: tuple[str, ...]
    holder: str = ""
    reason: str = ""

    @property
    def is_test(self) -> bool:
        return self.name.rpartition("::")[2].startswith("test_")


def prune(
    path: str, text: str, module: str, resolver: Resolver, left_out: Mapping[str, Sequence[str]] = _NONE
) -> Pruned:
    """Drop the tests that need Ray, symbols that the project does not have or replaces, or upstream's own files.

    Args:
        path: Of the test file.
        text: Its text.
        module: Its dotted name.
        resolver: Knows what the project has.
        left_out: "module:Class" -> the methods that it was vendored without.
    """
    tree = readers.python(text)
    analysis = Analysis(tree, module)
    units = list(_units(tree.body))
    uses = list(analysis.uses())
    lines = _Lines(units)
    for use in uses:
        for item in use.imports:
            reason = _missing(item, use, module, resolver)
            unit = lines.unit(use.line)
            if reason and unit is not None and not unit.reason:
                unit.reason = reason
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            unit = lines.unit(node.lineno)
            reason = _text(node.value, module, resolver)
            if reason and unit is not None and not unit.reason:
                unit.reason = reason
    imported = {item.name for use in uses for item in use.imports}
    classes = {holder: holder.partition(":")[2] for holder in left_out}
    lacking = {name: classes[item] for item in left_out if classes[item] in imported for name in left_out[item]}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in lacking:
            unit = lines.unit(node.lineno)
            if unit is not None and not unit.reason:
                unit.reason = f"needs {lacking[node.attr]}.{node.attr}, which is left out of its class"
    _spread(units, uses, lines)
    kept = tuple(unit.name for unit in units if unit.is_test and not unit.reason)
    dropped = tuple((unit.name, unit.reason) for unit in units if unit.is_test and unit.reason)
    return Pruned(path, _without(text, units) if kept else "", kept, dropped)


def _units(body: Sequence[ast.stmt]) -> Iterator[_Unit]:
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        if isinstance(statement, ast.ClassDef):
            for inner in statement.body:
                name = f"{statement.name}::{getattr(inner, 'name', '')}"
                yield _Unit(name, 1 + first_line(inner), inner.end_lineno or inner.lineno, (), statement.name)
            # What stands before the body: decorators and base classes.
            first = min(1 + first_line(inner) for inner in statement.body)
            yield _Unit(statement.name, 1 + first_line(statement), first - 1, (statement.name,))
        else:
            name = statement.name if isinstance(statement, _Function) else ""
            binds = (name,) if name else tuple(_bound(statement))
            yield _Unit(name, 1 + first_line(statement), statement.end_lineno or statement.lineno, binds)


def _bound(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


class _Lines:
    """Finds the unit that a line belongs to."""

    def __init__(self, units: Sequence[_Unit]) -> None:
        self._units = units

    def unit(self, line: int) -> _Unit | None:
        found = [unit for unit in self._units if unit.first <= line <= unit.last]
        return min(found, key=lambda unit: unit.last - unit.first) if found else None


def _spread(units: list[_Unit], uses: list[ImportedUse], lines: _Lines) -> None:
    """Drop what uses something that is dropped, and the whole class with a helper in it."""
    while True:
        gone = {name: unit.reason for unit in units if unit.reason for name in unit.binds}
        broken = {unit.holder: unit.reason for unit in units if unit.holder and unit.reason and not unit.is_test}
        before = sum(bool(unit.reason) for unit in units)
        for use in uses:
            unit = lines.unit(use.line)
            if unit is not None and not unit.reason and not use.imports and use.chain[0] in gone:
                unit.reason = gone[use.chain[0]]
        for unit in units:
            if not unit.reason:
                unit.reason = broken.get(unit.holder, "") or gone.get(unit.holder, "") or broken.get(unit.name, "")
        if sum(bool(unit.reason) for unit in units) == before:
            break
    for unit in units:
        methods = [other for other in units if other.holder == unit.name]
        left = any(other.is_test and not other.reason for other in methods)
        if unit.name and methods and not left and not unit.reason:
            unit.reason = next((other.reason for other in methods if other.reason), "")


def _without(text: str, units: Sequence[_Unit]) -> str:
    gone = {line for unit in units if unit.reason for line in range(unit.first, unit.last + 1)}
    classes = {unit.name for unit in units if unit.reason and unit.binds} - {""}
    gone |= {line for unit in units if unit.holder in classes for line in range(unit.first, unit.last + 1)}
    lines = text.splitlines(keepends=True)
    return "".join(line for number, line in enumerate(lines, 1) if number not in gone)


def _missing(item: ImportedName, use: ImportedUse, importer: str, resolver: Resolver) -> str:
    top = item.module.partition(".")[0]
    if top == "ray":
        return "needs Ray"
    if top != "verl":
        return ""
    start = item.module if item.name is None else f"{item.module}.{item.name}"
    return _path(".".join([start, *use.chain[1:]]), importer, resolver)


def _path(dotted: str, importer: str, resolver: Resolver) -> str:
    """Say why a dotted path cannot be followed; it is not known where in it the module ends and a symbol begins."""
    parts = dotted.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            target = resolver.resolve_import(importer, ".".join(parts[:length]), parts[length])
        except NotKept:
            continue
        if target is None:
            return ""
        if target.module.startswith("shims."):
            return f"needs {'.'.join(parts[: length + 1])}, which the project replaces by its own"
        if target.name is None and length + 1 < len(parts):
            break
        return ""
    return f"needs {dotted}, which is not vendored"


def _text(value: str, importer: str, resolver: Resolver) -> str:
    if value.startswith("verl/") or value == "verl":
        return "needs upstream's own files"
    if value.startswith("verl.") and all(part.isidentifier() for part in value.split(".")):
        return _path(value, importer, resolver)
    return ""
