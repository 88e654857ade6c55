"""What the text of a module has in it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import TypeGuard

from extractor.importers.runs.files.imports import Name, names_of, statements
from extractor.importers.runs.files.needed import names_loaded
from extractor.pipeline.index import Module
from extractor.pipeline.index.syntax import attribute_chain
from extractor.values import readers
from extractor.values.fingerprint import fingerprint


def prints(module: Module, name: str) -> list[str]:
    """Return what a name of a module is, up to what makes no difference."""
    return [fingerprint(module.statements[index].node) for index in module.bindings[name]]


def methods(module: Module, cls: str | None) -> set[str]:
    """Return the methods of a class of a module; of anything else there are none."""
    nodes = [module.statements[index].node for index in module.bindings.get(cls or "", ())]
    bodies = [item for node in nodes if isinstance(node, ast.ClassDef) for item in node.body]
    return {item.name for item in bodies if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))}


# Of a module that much hangs on each is asked for as often as something is taken from it.
_cached = lru_cache(maxsize=256)


@_cached
def inherited(text: str) -> Mapping[str, set[str]]:
    """Return what the classes of a module's text take of themselves, by what they extend: `x` of `self.x`."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(readers.python_again(text)):
        if isinstance(node, ast.ClassDef):
            used = {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}
            for base in node.bases:
                found.setdefault(ast.unparse(base), set()).update(used)
    return found


@_cached
def attributes(text: str) -> Mapping[str, set[str]]:
    """Return what a module's text takes from each name: `x` and `y` of `a.b.x` and `a.b.y`, by "a.b"."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(readers.python_again(text)):
        if isinstance(node, ast.Attribute):
            chain = attribute_chain(node.value)
            if chain:
                found.setdefault(".".join(chain), set()).add(node.attr)
    return found


def top_names(text: str, module: str, *, is_package: bool) -> Iterator[Name]:
    """Yield the names that a module of a text cannot be imported without."""
    for node, needed in statements(readers.python_again(text)):
        if needed:
            yield from names_of(node, module, is_package=is_package, needed=True)


@_cached
def tried(text: str) -> frozenset[str]:
    """Return the names that a module's text imports below `try`, or for types alone: it does without them."""
    found = set()
    for node in ast.walk(readers.python_again(text)):
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if isinstance(node, ast.Try) or for_types:
            inside = [item for item in ast.walk(node) if isinstance(item, (ast.Import, ast.ImportFrom))]
            found |= {alias.asname or alias.name for item in inside for alias in item.names}
    return frozenset(found)


def loaded_elsewhere(module: Module) -> set[str]:
    """Return what the statements that define nothing use."""
    nodes = [statement.node for statement in module.statements if not statement.binds and not statement.imports]
    return set().union(*map(names_loaded, nodes))


def is_launch(node: ast.stmt) -> TypeGuard[ast.If]:
    """Tell whether a statement does what its module does only as a program: `if __name__ == "__main__"`."""
    return isinstance(node, ast.If) and "__name__" in names_loaded(node.test)


def as_a_copy(text: str) -> str:
    """Leave out what a module does only as a program, and how it finds its own packages, which a copy has by it."""
    lines, body = text.split("\n"), readers.python_again(text).body
    own = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    for node in reversed(body):
        if (is_launch(node) and not node.orelse) or _searches(node, own):
            del lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(lines)


def _searches(node: ast.stmt, own: Collection[str]) -> bool:
    """Tell whether a statement puts into `sys.path` what a function of the module's own finds."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or ast.unparse(call.func) not in ("sys.path.insert", "sys.path.append"):
        return False
    inside = (part.func for item in call.args for part in ast.walk(item) if isinstance(part, ast.Call))
    return any(isinstance(func, ast.Name) and func.id in own for func in inside)
