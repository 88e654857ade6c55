"""What expressions of a training script are worth, as far as that can be said without running it."""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}
_COMPARES: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_MAKES: Mapping[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": str}
_VARIABLES = ("os.getenv", "os.environ.get", "getenv", "environ.get")
# Names that follow each other.
_DEEPEST = 20


class Computed(str):
    """The text of an expression that only the script knows the value of."""


@dataclass(frozen=True)
class Known:
    """Holds what a script's names stand for.

    Attributes:
        constants: Those that get a value once, with it.
        options: Those of its command line, with their defaults; None: an option without one.
        given: What its command line says.
    """

    constants: Mapping[str, ast.expr]
    options: Mapping[str, ast.expr | None]
    given: Mapping[str, Any]


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the names that get a value once, with it."""
    given: dict[str, ast.expr] = {}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = Counter(node.id for node in names if isinstance(node.ctx, ast.Store))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            given[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            given[node.target.id] = node.value
    return {name: value for name, value in given.items() if bound[name] == 1}


def options(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the options of a script's command line, by argparse or as fields of dataclasses, with their defaults."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node) == "add_argument":
            flags = [item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            stated = {item.arg: item.value for item in node.keywords}
            default = stated.get("default")
            if default is None and isinstance(action := stated.get("action"), ast.Constant):
                default = ast.Constant(False) if action.value == "store_true" else None
            for flag in flags:
                yield flag.lstrip("-").replace("-", "_"), default
        elif isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(item) for item in node.decorator_list):
            for field_ in node.body:
                if isinstance(field_, ast.AnnAssign) and isinstance(field_.target, ast.Name):
                    yield field_.target.id, _default(field_.value)


def _default(node: ast.expr | None) -> ast.expr | None:
    """Return the default of a dataclass's field: itself, or what `field(default=...)` says."""
    if isinstance(node, ast.Call) and name_of(node) == "field":
        values = {item.arg: item.value for item in node.keywords}
        made = values.get("default_factory")
        return values.get("default", made.body if isinstance(made, ast.Lambda) else None)
    return node


def value_of(node: ast.expr, known: Known) -> Any:
    """Return the value of an expression, or its text."""
    try:
        return _worked_out(node, known, 0)
    except (ValueError, TypeError, SyntaxError, ArithmeticError, MemoryError, RecursionError):
        return Computed(ast.unparse(known.constants.get(node.id, node) if isinstance(node, ast.Name) else node))


def _worked_out(node: ast.expr, known: Known, depth: int) -> Any:
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(node, ast.Name) and node.id in known.constants:
        return _worked_out(known.constants[node.id], known, depth + 1)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _attribute(node.attr, node.value.id, known, depth + 1)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        sides = [_worked_out(side, known, depth + 1) for side in (node.left, node.right)]
        if all(isinstance(side, (int, float)) for side in sides):
            return _OPERATIONS[type(node.op)](*sides)
    if isinstance(node, ast.Call) and not node.keywords and node.args:
        return _called(node, known, depth + 1)
    if isinstance(node, ast.List):
        return [_worked_out(item, known, depth + 1) for item in node.elts]
    if isinstance(node, ast.IfExp):
        return _worked_out(node.body if _worked_out(node.test, known, depth + 1) else node.orelse, known, depth + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _worked_out(node.operand, known, depth + 1)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        sides = [_worked_out(side, known, depth + 1) for side in (node.left, *node.comparators)]
        return _COMPARES[type(node.ops[0])](*sides)
    if isinstance(node, ast.BoolOp):
        return _either(node, known, depth + 1)
    return ast.literal_eval(node)


def _either(node: ast.BoolOp, known: Known, depth: int) -> Any:
    """Return the first of what `or` or `and` joins that decides, or the last."""
    value = None
    for part in node.values:
        value = _worked_out(part, known, depth)
        if bool(value) is isinstance(node.op, ast.Or):
            break
    return value


def name_of(call: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    return ast.unparse(call.func).rpartition(".")[2]


def _attribute(name: str, owner: str, known: Known, depth: int) -> Any:
    """Return an option of the command line, `args.rate`, or an argument, `own.path` of `own = Config(path=...)`."""
    made = known.constants.get(owner)
    argument = next((item.value for item in getattr(made, "keywords", ()) if item.arg == name), None)
    if argument is not None:
        return _worked_out(argument, known, depth)
    if name in known.given and name in known.options:
        return known.given[name]
    default = known.options.get(name)
    if default is None:
        raise ValueError(f"{owner}.{name} is not known")
    return _worked_out(default, known, depth)


def _called(node: ast.Call, known: Known, depth: int) -> Any:
    """Return what a number or text is made of; of a variable of the environment its default."""
    called = ast.unparse(node.func)
    if called in _VARIABLES and len(node.args) == 2:
        return _worked_out(node.args[1], known, depth)
    if called in _MAKES and len(node.args) == 1:
        value = _worked_out(node.args[0], known, depth)
        if isinstance(value, (str, int, float)):
            return _MAKES[called](value)
    raise ValueError(f"{called} is called")
