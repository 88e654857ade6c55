"""The part of a module that some of its definitions need, and imports that nothing in it uses."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import takewhile

from extractor.pipeline.index import Module
from extractor.pipeline.index.syntax import first_line
from extractor.values import readers
from extractor.values.reachable import reachable


def names_loaded(node: ast.AST) -> set[str]:
    """Return the names that code reads: of a definition those of its module, not its own."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return set(free(ast.unparse(node)))
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


@lru_cache(maxsize=4096)
def free(text: str) -> frozenset[str]:
    """Return the names that a text reads and does not bind."""
    waiting = [symtable.symtable(text, "text", "exec")]
    top = {item.get_name() for item in waiting[0].get_symbols() if item.is_assigned() or item.is_imported()}
    found: set[str] = set()
    while waiting:
        table = waiting.pop()
        is_top = table.get_type() == "module"
        found |= {
            item.get_name()
            for item in table.get_symbols()
            if item.is_referenced() and (item.is_global() or (is_top and not item.is_assigned()))
        }
        waiting.extend(table.get_children())
    return frozenset(found - top)


def loaded_by(module: Module, indices: Collection[int]) -> set[str]:
    """Return the names that statements of a module read."""
    return set().union(*(names_loaded(module.statements[index].node) for index in indices))


def needed_part(text: str, roots: Collection[str], elsewhere: Mapping[str, str]) -> str:
    """Return what some definitions of a module need of it, in its order.

    What it only does when it is imported comes along where that is about something that is needed: `REGISTRY.clear()`
    does with `REGISTRY`, and `wandb.login()` where a definition that is needed uses wandb.

    Args:
        text: Of the module. One that lacks a root is returned as it is.
        roots: What is needed.
        elsewhere: Definitions that are imported instead, each from its module, with what they need.
    """
    module = Module("file", "file.py", text)
    if not all(name in module.bindings for name in roots):
        return text
    about = {name: [*indices, *module.effects_on.get(name, ())] for name, indices in module.bindings.items()}
    users = {name: loaded_by(module, indices) for name, indices in about.items()}
    kept = reachable(roots, lambda name: (users[name] & users.keys()) - elsewhere.keys())
    used = kept.union(*(users[name] for name in kept))
    out = []
    for statement in module.statements:
        if statement.binds:
            is_kept = not kept.isdisjoint(statement.binds)
        elif statement.imports:
            is_kept = True
        elif statement.effect_on is not None:
            is_kept = statement.effect_on in used - elsewhere.keys()
        else:
            read = names_loaded(statement.node) & (users.keys() | module.imports.keys())
            is_kept = not statement.effect or (bool(read) and read <= used)
        if not is_kept:
            out.append(statement.index)
    left = without_statements(text, module, out)
    imported = [f"from {elsewhere[name]} import {name}" for name in sorted(used & elsewhere.keys())]
    return without_unused(with_first(left, imported))


def without_statements(text: str, module: Module, indices: Collection[int]) -> str:
    """Return a module's text without some of its statements, the comments that stand above these, and the blank lines
    that would be left of both sides.
    """
    lines = text.split("\n")
    for index in sorted(indices, reverse=True):
        node = module.statements[index].node
        assert node.end_lineno is not None
        start = first_line(node)
        while index and lines[start - 1].startswith("#"):
            start -= 1
        end = node.end_lineno
        above, below = _blank(reversed(lines[:start])), _blank(lines[end:])
        if end + below == len(lines):  # the last
            del lines[start - above : end + max(below - 1, 0)]
        else:
            del lines[start : end + (below if above == start else min(above, below))]
    return "\n".join(lines)


def _blank(lines: Iterable[str]) -> int:
    """Return how many lines are blank before one is not."""
    return sum(1 for _ in takewhile(lambda line: not line.strip(), lines))


def without_unused(text: str, needed: Collection[str] = ()) -> str:
    """Return a module's text without the imports at its top that nothing in it uses.

    Args:
        text: Of the module.
        needed: Names that are used all the same.
    """
    return without_imports(text, unused(text) - set(needed))


@lru_cache(maxsize=256)
def unused(text: str) -> frozenset[str]:
    """Return the names that a module's top imports and nothing in it uses; what it exports counts as used."""
    tree = readers.python_again(text)
    found = {alias.asname or alias.name for node in _imports(tree) for alias in node.names if alias.name != "*"}
    texts = {item.value for item in ast.walk(tree) if isinstance(item, ast.Constant) and isinstance(item.value, str)}
    used = names_loaded(tree)
    return frozenset(name for name in found if name.partition(".")[0] not in used and name not in texts)


def without_imports(text: str, locals_: Collection[str]) -> str:
    """Leave out names that a module's top imports."""
    lines = text.split("\n")
    for node in reversed(list(_imports(readers.python_again(text)))):
        kept = [alias for alias in node.names if (alias.asname or alias.name) not in locals_]
        if len(kept) < len(node.names):
            new = [] if not kept else [ast.unparse(_with_names(node, kept))]
            lines[node.lineno - 1 : node.end_lineno] = new
    return "\n".join(lines)


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements at a module's top that have their lines to themselves."""
    ends = [(node.lineno, node.end_lineno) for node in tree.body]
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and getattr(node, "module", "") != "__future__":
            shared = [span for span in ends if span[0] <= (node.end_lineno or 0) and (span[1] or 0) >= node.lineno]
            if len(shared) == 1:
                yield node


def with_first(text: str, lines: Collection[str]) -> str:
    """Return a module's text with more lines, before its first statement but its docstring and `__future__`."""
    found, place = text.split("\n"), 0
    for node in readers.python_again(text).body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            place = first_line(node)
            break
    return "\n".join([*found[:place], *lines, *found[place:]])


def _with_names(node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> ast.stmt:
    if isinstance(node, ast.Import):
        return ast.Import(names)
    return ast.ImportFrom(node.module, names, node.level)


def without_lost(text: str, module: Module, roots: Collection[str], lost: set[str]) -> tuple[str, list[str]]:
    """Return a module's text without definitions that need what cannot be had, where nothing else needs them.

    Args:
        text: Of the module.
        module: The same, parsed.
        roots: The names in it that something else needs.
        lost: The names that it imports and cannot have.

    Returns:
        The text, and the names of what was left out.
    """
    users = {name: loaded_by(module, indices) for name, indices in module.bindings.items()}
    starts = [name for name in roots if name in users]
    kept = reachable(starts, lambda name: users[name] & users.keys())
    out = {name for name, used in users.items() if used & lost and name not in kept}
    grown = True
    while grown:
        more = {name for name, used in users.items() if used & out and name not in kept} - out
        out |= more
        grown = bool(more)
    indices = {index for name in out for index in module.bindings[name]}
    left = without_statements(text, module, indices)
    used = names_loaded(readers.python_again(left))
    gone = names_loaded(readers.python_again(text)) | lost
    return without_imports(left, gone - used), sorted(out)
