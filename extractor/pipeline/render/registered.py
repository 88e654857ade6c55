"""Read what code registers by name, and such functions' parameters."""

import ast
import re
from collections.abc import Iterator, Mapping

from extractor.values.readers import parse_python

_WORD = re.compile(r"\w+")
_Definition = ast.FunctionDef | ast.ClassDef


def list_registrations(tree: ast.Module) -> Iterator[tuple[str, str, _Definition]]:
    """Yield decorator, registered name and definition for each registration."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        if not isinstance(node, _Definition):
            continue
        calls = (call for call in node.decorator_list if isinstance(call, ast.Call) and call.args)
        for call in calls:
            name = _read_name(call.args[0], classes)
            if isinstance(call.func, ast.Name) and name:
                yield call.func.id, name, node


def collect_registered_words(text: str, decorator: str) -> dict[str, frozenset[str]]:
    """Map registered names to the words in their functions."""
    found = {}
    for used, name, function in list_registrations(parse_python(text)):
        if used == decorator and isinstance(function, ast.FunctionDef):
            body = function.body[1:] if ast.get_docstring(function) else function.body
            parts = [*function.args.args, *function.args.kwonlyargs, *body]
            found[name] = frozenset(word for part in parts for word in _find_words(part))
    return found


def _find_words(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.arg):
            yield part.arg
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and " " not in part.value:
            yield from _WORD.findall(part.value)


def _read_name(argument: ast.expr, classes: Mapping[str, ast.ClassDef]) -> str | None:
    """Return a registered name from its argument; None if computed."""
    if isinstance(argument, ast.Constant):
        return argument.value if isinstance(argument.value, str) else None
    if not isinstance(argument, ast.Attribute):
        return None
    holder = classes.get(ast.unparse(argument.value))
    for member in holder.body if holder is not None else ():
        assigned = map(ast.unparse, member.targets) if isinstance(member, ast.Assign) else ()
        if argument.attr in assigned and isinstance(value := getattr(member, "value", None), ast.Constant):
            return str(value.value)
    return ast.unparse(argument)
