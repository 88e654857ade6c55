"""What a fork's version of a symbol has not and the project's has: the project calls it by that.

Copies of verl are of any day. Where upstream has given a function another argument since, a copy of before cannot stand
in its place.
"""

from __future__ import annotations

import ast
from textwrap import dedent

from extractor.values import readers

_Any = ast.FunctionDef | ast.AsyncFunctionDef
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def lacking(ours: ast.stmt | None, theirs: str) -> list[str]:
    """Return arguments, methods and members that only the project's version has, in its order.

    Args:
        ours: The project's.
        theirs: The text that is to stand in its place.
    """
    nodes = readers.python(dedent(theirs)).body
    node = next((item for item in nodes if getattr(item, "name", None) == getattr(ours, "name", "")), None)
    if isinstance(ours, _Function):
        return _arguments(ours, node) if isinstance(node, _Function) else []
    if not isinstance(ours, ast.ClassDef) or not isinstance(node, ast.ClassDef):
        return []
    own, other = _members(ours), _members(node)
    found = [f"{ours.name}.{name}" for name in own if name not in other and not _is_private(name)]
    for name, member in own.items():
        there = other.get(name)
        if isinstance(member, _Function) and isinstance(there, _Function) and not _is_private(name):
            found += [f"{argument} of {ours.name}.{name}" for argument in _arguments(member, there)]
    return found


def more_arguments(theirs: ast.stmt | None, ours: str) -> list[tuple[str, str]]:
    """Return the arguments that only methods of the fork's version of a class take, each with its method.

    Args:
        theirs: The fork's.
        ours: The text of the project's.
    """
    nodes = readers.python(dedent(ours)).body
    node = next((item for item in nodes if isinstance(item, ast.ClassDef)), None)
    if node is None or not isinstance(theirs, ast.ClassDef):
        return []
    own, other = _members(node), _members(theirs)
    return [
        (argument, name)
        for name, member in other.items()
        if isinstance(member, _Function) and isinstance(there := own.get(name), _Function)
        for argument in _arguments(member, there)
    ]


def _arguments(
    ours: ast.FunctionDef | ast.AsyncFunctionDef, theirs: ast.FunctionDef | ast.AsyncFunctionDef
) -> list[str]:
    """Return the arguments that a function does not take, where it does not take any."""
    if theirs.args.kwarg is not None:
        return []
    taken = {item.arg for item in _named(theirs)}
    return [item.arg for item in _named(ours) if item.arg not in taken]


def _named(function: _Any) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _members(cls: ast.ClassDef) -> dict[str, ast.stmt]:
    """Return what a class defines in its body."""
    found: dict[str, ast.stmt] = {}
    for node in cls.body:
        if isinstance(node, (*_Function, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.Assign):
            found.update({target.id: node for target in node.targets if isinstance(target, ast.Name)})
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")
