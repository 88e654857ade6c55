"""Read the parameters of functions that code registers by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from extractor.values.readers import python

_WORD = re.compile(r"\w+")


def collect_registered_words(text: str, decorator: str, enumeration: str = "") -> dict[str, frozenset[str]]:
    """Map registered names to the words in their functions."""
    tree = python(text)
    members, found = _members(tree, enumeration), {}
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        for call in function.decorator_list:
            if _is_call(call, decorator) and (name := _name(call, members)):
                body = function.body[1:] if ast.get_docstring(function) else function.body
                parts = [*function.args.args, *function.args.kwonlyargs, *body]
                found[name] = frozenset(word for part in parts for word in _words(part))
    return found


def _words(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.arg):
            yield part.arg
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and " " not in part.value:
            yield from _WORD.findall(part.value)


def _is_call(node: ast.AST, decorator: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == decorator


def _name(call: ast.AST, members: Mapping[str, str]) -> str | None:
    """Return the name that a call registers; None where it is computed."""
    name = next(iter(getattr(call, "args", ())), None)
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return name.value
    return members.get(name.attr) if isinstance(name, ast.Attribute) else None


def _members(tree: ast.Module, enumeration: str) -> dict[str, str]:
    """Read name and value of the members of an enumeration."""
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == enumeration)
    return {
        target.id: node.value.value
        for found in classes
        for node in found.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
