"""Questions about Python syntax trees that know nothing of verl."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator

from extractor.values import readers


def attribute_chain(node: ast.AST) -> tuple[str, ...]:
    """Return ("a", "b", "c") for the expression a.b.c; () for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return (node.id, *reversed(parts))
    return ()


def chains_of(node: ast.AST) -> dict[str, set[tuple[str, ...]]]:
    """Name -> the attribute chains read from it anywhere below `node`, the longest of each expression."""
    found: dict[str, set[tuple[str, ...]]] = {}
    pending = [node]
    while pending:
        item = pending.pop()
        chain = attribute_chain(item)
        if chain:
            found.setdefault(chain[0], set()).add(chain[1:])
        else:
            pending.extend(ast.iter_child_nodes(item))
    return found


def string_annotations(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the annotations of a function or a variable that are written as strings, parsed."""
    annotations: list[ast.expr | None] = []
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        annotations.append(node.returns)
    elif isinstance(node, (ast.arg, ast.AnnAssign)):
        annotations.append(node.annotation)
    for annotation in annotations:
        for item in ast.walk(annotation) if annotation is not None else ():
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                expression = readers.expression(item.value)
                if expression is not None:
                    yield expression


def child_statements(node: ast.If | ast.Try | ast.With | ast.For | ast.While) -> Iterator[ast.stmt]:
    """Yield the statements in the blocks of a compound statement, in order."""
    yield from node.body
    if isinstance(node, ast.Try):
        for handler in node.handlers:
            yield from handler.body
    if not isinstance(node, ast.With):
        yield from node.orelse
    if isinstance(node, ast.Try):
        yield from node.finalbody


def first_line(node: ast.stmt) -> int:
    """Return the line that a statement begins on, with its decorators, counted from 0."""
    parts: list[ast.stmt | ast.expr] = [node, *getattr(node, "decorator_list", [])]
    return min(part.lineno for part in parts) - 1


def bound_names(node: ast.stmt, *, places: bool = False) -> Iterator[str]:
    """Yield the names that a statement binds in its module; with `places` what else it assigns to ("a.b") as well."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, (ast.Name, ast.Tuple, ast.List)):
                yield from (item.id for item in ast.walk(target) if isinstance(item, ast.Name))
            elif places:
                yield ast.unparse(target)
    elif isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
        for child in child_statements(node):
            yield from bound_names(child, places=places)


def is_main_guard(node: ast.stmt) -> bool:
    """Return True for `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and any(
        isinstance(item, ast.Name) and item.id == "__name__" for item in ast.walk(node.test)
    )


def global_names(text: str, path: str) -> set[str]:
    """Return the names that a top-level statement reads from its module's namespace (builtins included)."""
    table = symtable.symtable(text, path, "exec")
    found = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    pending = list(table.get_children())
    while pending:
        child = pending.pop()
        found.update(symbol.get_name() for symbol in child.get_symbols() if symbol.is_global())
        pending.extend(child.get_children())
    return found
