"""Compute bash's arithmetic: `$((...))` and `((...))`, on whole numbers."""

import ast
import operator
import re
from collections.abc import Callable, Mapping

from extractor.values import readers

_BINARY: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda left, right: _divide(left, right),
    ast.Mod: lambda left, right: left - right * _divide(left, right),
    ast.Pow: operator.pow,
}
_COMPARE: Mapping[type, Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
# `X = 2`, `X += 2`, `X++`, `--X`.
_CHANGED = re.compile(r"\w\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)\s*[A-Za-z_]")
_OCTAL = re.compile(r"(?<![\w.])0[0-9]")
_LARGEST, _MAX_EXPONENT, _LONGEST, _REFERENCES = 2**63, 62, 2_000, 20


class NotKnown(ValueError):
    """Raised for unknown names and unsupported expressions."""


def has_change(text: str) -> bool:
    """Tell whether an expression changes a variable."""
    return _CHANGED.search(text[:_LONGEST]) is not None


def evaluate(text: str, lookup: Callable[[str], str | None], depth: int = 0) -> int:
    """Return the value of an expression.

    Args:
        text: Between the brackets, expansions done.
        lookup: Gives the text of a variable; None where it is unknown.
        depth: How many variables it is the value of.

    Raises:
        NotKnown: it names something unknown, or is not read.
    """
    if len(text) > _LONGEST or depth > _REFERENCES or has_change(text) or _OCTAL.search(text) or "," in text:
        raise NotKnown(text[:_LONGEST])
    tree = readers.parse_expression(re.sub(r"(?<!/)/(?!/)", "//", text).strip() or "0")
    if tree is None:
        raise NotKnown(text)
    try:
        value = _evaluate(tree, lookup, depth)
    except (ZeroDivisionError, RecursionError):
        raise NotKnown(text) from None
    if not -_LARGEST <= value < _LARGEST:
        raise NotKnown(text)
    return value


def _evaluate(node: ast.AST, lookup: Callable[[str], str | None], depth: int) -> int:
    def inner(of: ast.AST) -> int:
        value = _evaluate(of, lookup, depth)
        if not -_LARGEST <= value < _LARGEST:
            raise NotKnown(ast.unparse(of))
        return value

    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        held = lookup(node.id)
        if held is None:
            raise NotKnown(node.id)
        return evaluate(held, lookup, depth + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -inner(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        right = inner(node.right)
        if isinstance(node.op, ast.Pow) and not 0 <= right <= _MAX_EXPONENT:
            raise NotKnown(ast.unparse(node))
        return _BINARY[type(node.op)](inner(node.left), right)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
        return int(_COMPARE[type(node.ops[0])](inner(node.left), inner(node.comparators[0])))
    raise NotKnown(ast.unparse(node))


def _divide(left: int, right: int) -> int:
    """Divide towards zero, as bash does."""
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole
