"""What does not fit together, where edits stand beside code that they were not made for.

A fork's caller may hand over an argument that only the fork's function takes, or take apart more values than the
project's returns; and so may the project's caller of a fork's function. A fork's code may read from a batch what only
the fork's trainer puts there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from extractor.values.modules import module_name

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Disagreement:
    """One call.

    Attributes:
        caller: Module and top-level name of what calls.
        called: Those of the function.
        what: What does not fit, to follow "it".
    """

    caller: tuple[str, str]
    called: tuple[str, str]
    what: str


def disagreements(files: Mapping[str, ast.Module]) -> Iterator[Disagreement]:
    """Yield the calls of functions at the top of a project's files that cannot work.

    Args:
        files: Each file, by its path in the project.
    """
    trees = {module_name(path): tree for path, tree in files.items()}
    functions = {
        (module, node.name): node
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_plain(node)
    }
    for module, tree in trees.items():
        names = _names(module, tree, trees)
        for node in tree.body:
            for call, targets in _calls(node):
                called = _called(call.func, names)
                function = functions.get(called) if called is not None else None
                if called is not None and function is not None and (what := _misfit(call, targets, function)):
                    yield Disagreement((module, getattr(node, "name", "")), called, what)


def unfed(files: Mapping[str, ast.Module]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what reads a key of a batch that no code names otherwise: module and top-level name, and the key.

    Args:
        files: Each file, by its path in the project.
    """
    reads: list[tuple[tuple[str, str], str]] = []
    known: set[str] = set()
    for path, tree in files.items():
        for node in tree.body:
            mine = dict(_keys_read(node))
            reads += [((module_name(path), getattr(node, "name", "")), key) for key in mine.values()]
            known |= {
                item.value
                for item in ast.walk(node)
                if isinstance(item, ast.Constant) and isinstance(item.value, str) and id(item) not in mine
            }
    yield from ((place, key) for place, key in reads if key not in known)


def _keys_read(node: ast.stmt) -> Iterator[tuple[int, str]]:
    """Yield the keys that a statement reads from a batch, and where: `data.meta_info["key"]`."""
    for item in ast.walk(node):
        if (
            isinstance(item, ast.Subscript)
            and isinstance(item.ctx, ast.Load)
            and isinstance(item.value, ast.Attribute)
            and item.value.attr in ("batch", "meta_info")
            and isinstance(item.slice, ast.Constant)
            and isinstance(item.slice.value, str)
        ):
            yield id(item.slice), item.slice.value


def _is_plain(function: _Function) -> bool:
    """Tell whether a function is called as it is written: decorators of upstream's that register it leave it so."""
    names = (item.func if isinstance(item, ast.Call) else item for item in function.decorator_list)
    return all(ast.unparse(name).rpartition(".")[2].startswith("register") for name in names)


def _names(module: str, tree: ast.Module, trees: Mapping[str, ast.Module]) -> dict[str, tuple[str, str]]:
    """Return what a module's names stand for: a name in a module, or a module and an empty name."""
    found = {node.name: (module, node.name) for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found[alias.asname or alias.name] = (inner, "") if inner in trees else (node.module, alias.name)
        elif isinstance(node, ast.Import):
            found.update({alias.asname: (alias.name, "") for alias in node.names if alias.asname})
    return found


def _calls(node: ast.stmt) -> Iterator[tuple[ast.Call, int | None]]:
    """Yield each call of plain names, and into how many names its value is taken apart."""
    apart = {
        id(item.value): len(item.targets[0].elts)
        for item in ast.walk(node)
        if isinstance(item, ast.Assign)
        and isinstance(item.targets[0], ast.Tuple)
        and not any(isinstance(target, ast.Starred) for target in item.targets[0].elts)
    }
    own = {item.arg for item in ast.walk(node) if isinstance(item, ast.arg)}
    own |= {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
    for item in ast.walk(node):
        if isinstance(item, ast.Call) and _first(item.func) not in own:
            yield item, apart.get(id(item))


def _first(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _called(node: ast.expr, names: Mapping[str, tuple[str, str]]) -> tuple[str, str] | None:
    if isinstance(node, ast.Name):
        found = names.get(node.id)
        return found if found is not None and found[1] else None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module, name = names.get(node.value.id, ("", "."))
        return (module, node.attr) if not name else None
    return None


def _misfit(call: ast.Call, targets: int | None, function: _Function) -> str:
    """Say what does not fit; nothing where all does, or cannot be told."""
    taken = function.args
    named = {item.arg for item in (*taken.args, *taken.kwonlyargs)}
    given = [item.arg for item in call.keywords if item.arg is not None and item.arg not in named]
    if given and taken.kwarg is None:
        return f"hands {', '.join(given)} to {function.name}, which does not take it"
    if len(call.args) > len(taken.posonlyargs) + len(taken.args) and taken.vararg is None:
        return f"hands {len(call.args)} arguments to {function.name}, which does not take so many"
    if missing := _missing(call, function):
        return f"does not hand {', '.join(missing)} to {function.name}, which needs it"
    returned = {_length(item) for item in _returns(function)}
    if targets is not None and len(returned) == 1 and returned - {targets, None}:
        return f"takes {targets} values from {function.name}, which returns {returned.pop()}"
    return ""


def _missing(call: ast.Call, function: _Function) -> list[str]:
    """Return the arguments that a function needs and a call does not hand over; none where the call hands over more."""
    if any(item.arg is None for item in call.keywords) or any(isinstance(item, ast.Starred) for item in call.args):
        return []
    places = [*function.args.posonlyargs, *function.args.args]
    needed = places[len(call.args) : len(places) - len(function.args.defaults)]
    only = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    needed += [item for item, default in only if default is None]
    given = {item.arg for item in call.keywords}
    return [item.arg for item in needed if item.arg not in given]


def _returns(function: _Function) -> Iterator[ast.Return]:
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            pending += ast.iter_child_nodes(node)


def _length(node: ast.Return) -> int | None:
    """Return how many values a statement returns; None where it cannot be told."""
    whole = isinstance(node.value, ast.Tuple) and not any(isinstance(item, ast.Starred) for item in node.value.elts)
    return len(node.value.elts) if whole and isinstance(node.value, ast.Tuple) else None
