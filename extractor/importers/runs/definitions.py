"""What the definitions of a module need of it, and its text without what they do not need."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import takewhile

from extractor.pipeline.index import Module
from extractor.pipeline.index.syntax import attribute_chain, first_line
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


@lru_cache(maxsize=256)
def attributes(text: str) -> Mapping[str, set[str]]:
    """Return what a module takes from each name: `x` and `y` of `a.b.x` and `a.b.y`, by "a.b"."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(readers.parse_python_cached(text)):
        if isinstance(node, ast.Attribute) and (chain := attribute_chain(node.value)):
            found.setdefault(".".join(chain), set()).add(node.attr)
    return found


@lru_cache(maxsize=256)
def inherited(text: str) -> Mapping[str, set[str]]:
    """Return the attributes that a module's classes use, by the classes that they extend."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(readers.parse_python_cached(text)):
        if isinstance(node, ast.ClassDef):
            used = {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}
            for base in node.bases:
                found.setdefault(ast.unparse(base), set()).update(used)
    return found


def methods(module: Module, cls: str | None) -> set[str]:
    """Return the methods of a module's class; of anything else there are none."""
    nodes = [module.statements[index].node for index in module.bindings.get(cls or "", ())]
    return {
        item.name
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


@lru_cache(maxsize=256)
def imported_on_trial(text: str) -> frozenset[str]:
    """Return the names that a module imports below `try` or for types alone: it does without them."""
    found = set()
    for node in ast.walk(readers.parse_python_cached(text)):
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if isinstance(node, ast.Try) or for_types:
            inside = [item for item in ast.walk(node) if isinstance(item, (ast.Import, ast.ImportFrom))]
            found |= {alias.asname or alias.name for item in inside for alias in item.names}
    return frozenset(found)


def without_launch(text: str) -> str:
    """Return a module's text without what it does only as a program: `if __name__ == "__main__"`."""
    lines = text.split("\n")
    for node in reversed(readers.parse_python_cached(text).body):
        if isinstance(node, ast.If) and "__name__" in names_loaded(node.test) and not node.orelse:
            del lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(lines)


def needed_part(text: str, roots: Collection[str], elsewhere: Mapping[str, str]) -> str:
    """Return what some definitions of a module need of it, in its order.

    A statement without a name comes along where it is about something needed: `REGISTRY.clear()` with `REGISTRY`.

    Args:
        text: Of the module. One that lacks a root is returned as it is.
        roots: What is needed.
        elsewhere: Definitions that are imported instead, each with its module.
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
    left = _without_statements(text, module, out)
    imported = [f"from {elsewhere[name]} import {name}" for name in sorted(used & elsewhere.keys())]
    return without_unused(with_first(left, imported))


def without_lost(text: str, module: Module, roots: Collection[str], lost: set[str]) -> tuple[str, list[str]]:
    """Return a module's text without definitions that need what cannot be had, and the names of these.

    Args:
        text: Of the module.
        module: The same, parsed.
        roots: The definitions that stay; so does what they and statements without a name need.
        lost: The names that it imports and cannot have.
    """
    users = {name: loaded_by(module, indices) for name, indices in module.bindings.items()}
    effects = [item.index for item in module.statements if not item.binds and not item.imports]
    starts = [name for name in {*roots, *loaded_by(module, effects)} if name in users]
    kept = reachable(starts, lambda name: users[name] & users.keys())
    readers_of = {name: {user for user, used in users.items() if name in used} - kept for name in {*lost, *users}}
    out = reachable(lost, lambda name: readers_of.get(name, set())) - (lost - users.keys())
    left = _without_statements(text, module, {index for name in out for index in module.bindings[name]})
    used = names_loaded(readers.parse_python_cached(left))
    gone = names_loaded(readers.parse_python_cached(text)) | lost
    return without_imports(left, gone - used), sorted(out)


def _without_statements(text: str, module: Module, indices: Collection[int]) -> str:
    """Return a module's text without some statements, their comments, and the blank lines that both sides leave."""
    lines = text.split("\n")
    for index in sorted(indices, reverse=True):
        node = module.statements[index].node
        assert node.end_lineno is not None
        start, end = first_line(node), node.end_lineno
        while index and lines[start - 1].startswith("#"):
            start -= 1
        above, below = _blank(reversed(lines[:start])), _blank(lines[end:])
        if end + below == len(lines):  # the last
            del lines[start - above : end + max(below - 1, 0)]
        else:
            del lines[start : end + (below if above == start else min(above, below))]
    return "\n".join(lines)


def _blank(lines: Iterable[str]) -> int:
    """Return how many lines are blank before one is not."""
    return sum(1 for _ in takewhile(lambda line: not line.strip(), lines))


def without_unused(text: str) -> str:
    """Return a module's text without the imports at its top that nothing in it uses."""
    return without_imports(text, unused(text))


@lru_cache(maxsize=256)
def unused(text: str) -> frozenset[str]:
    """Return the names that a module's top imports and nothing in it uses or exports."""
    tree = readers.parse_python_cached(text)
    found = {alias.asname or alias.name for node in _imports(tree) for alias in node.names if alias.name != "*"}
    texts = {item.value for item in ast.walk(tree) if isinstance(item, ast.Constant) and isinstance(item.value, str)}
    used = names_loaded(tree)
    return frozenset(name for name in found if name.partition(".")[0] not in used and name not in texts)


def without_imports(text: str, locals_: Collection[str]) -> str:
    """Return a module's text whose top does not import some names."""
    lines = text.split("\n")
    for node in reversed(list(_imports(readers.parse_python_cached(text)))):
        kept = [alias for alias in node.names if (alias.asname or alias.name) not in locals_]
        if len(kept) < len(node.names):
            new = ast.Import(kept) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, kept, node.level)
            lines[node.lineno - 1 : node.end_lineno] = [ast.unparse(new)] if kept else []
    return "\n".join(lines)


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements at a module's top that have their lines to themselves."""
    ends = [(node.lineno, node.end_lineno or 0) for node in tree.body]
    for node in tree.body:
        is_import = isinstance(node, (ast.Import, ast.ImportFrom)) and getattr(node, "module", "") != "__future__"
        if is_import and sum(start <= (node.end_lineno or 0) and end >= node.lineno for start, end in ends) == 1:
            yield node  # type: ignore[misc]


def with_first(text: str, lines: Collection[str]) -> str:
    """Return a module's text with more lines before its first statement, behind its docstring and `__future__`."""
    found, place = text.split("\n"), 0
    for node in readers.parse_python_cached(text).body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            place = first_line(node)
            break
    return "\n".join([*found[:place], *lines, *found[place:]])
