"""Bash's arithmetic: `$((...))` and `((...))`, on whole numbers."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from extractor.values import readers

_BINARY: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda left, right: _divided(left, right),
    ast.Mod: lambda left, right: left - right * _divided(left, right),
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARE: Mapping[type, Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_TERNARY = re.compile(r"^(?P<test>[^?]+)\?(?P<yes>[^:]+):(?P<no>.+)$", re.DOTALL)
# A change that is all of an expression: `X = 2`, `X += 2`, `X++`, `--X`.
CHANGE = re.compile(
    r"(?P<name>[A-Za-z_]\w*)\s*(?:(?P<step>\+\+|--)|(?P<operation>(?:[-+*/%&|^]|<<|>>)?=)(?!=)\s*(?P<operand>.+))"
    r"|(?P<first>\+\+|--)(?P<after>[A-Za-z_]\w*)",
    re.DOTALL,
)
_CHANGED = re.compile(r"([A-Za-z_]\w*)\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)([A-Za-z_]\w*)")
_STEPS = re.compile(r"[A-Za-z_]\w*\s*(?:\+\+|--)|(?:\+\+|--)\s*[A-Za-z_]")
_NUMBER = re.compile(
    r"(?<![\w.#@])(?:(?P<base>[0-9]{1,2})#(?P<digits>\w+)|0[xX](?P<hex>[0-9a-fA-F]+)|(?P<octal>0[0-7]+))\b"
)
_MAX_EXPONENT = 64
_MAX_CHOICES = 20
_LONGEST = 2_000


class NotKnown(ValueError):
    """The expression is none that can be worked out here."""


def _divided(left: int, right: int) -> int:
    """Divide towards zero, as bash does."""
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _wrapped(value: int) -> int:
    """Return a number in 64 bits, as bash has it."""
    return (value + 2**63) % 2**64 - 2**63


def parts(text: str) -> list[str]:
    """Return the expressions that commas separate."""
    found, depth = [""], 0
    for letter in text[:_LONGEST]:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [*found[:-1], found[-1] + text[_LONGEST:]]


def changed(text: str) -> list[str]:
    """Return the variables that an expression changes."""
    return [name or after for name, after in _CHANGED.findall(text[:_LONGEST])]


def _decimal(found: re.Match[str]) -> str:
    """Return a number that is written in another base."""
    base = int(found["base"]) if found["base"] else 16 if found["hex"] else 8
    try:
        return str(int(found["digits"] or found["hex"] or found["octal"], base))
    except ValueError:
        raise NotKnown(found[0]) from None


def evaluate(text: str, lookup: Callable[[str], str | None], depth: int = 0) -> int:
    """Return the value of an expression.

    Args:
        text: Between the parentheses, expansions done.
        lookup: The text of a variable; None where it is unknown.
        depth: How many `?` it stands in.

    Raises:
        NotKnown: it names something unknown, or is no arithmetic.
    """
    if len(text) > _LONGEST or depth > _MAX_CHOICES:
        raise NotKnown(text[:_LONGEST])
    ternary = _TERNARY.match(text.strip())
    if ternary is not None:
        chosen = "yes" if evaluate(ternary["test"], lookup, depth + 1) else "no"
        return evaluate(ternary[chosen], lookup, depth + 1)
    if _STEPS.search(text):
        raise NotKnown(text)
    prepared = re.sub(r"&&", " and ", re.sub(r"\|\|", " or ", _NUMBER.sub(_decimal, text)))
    prepared = re.sub(r"!(?!=)", " not ", prepared)
    prepared = re.sub(r"(?<!/)/(?!/)", "//", prepared)
    prepared = re.sub(r"\$\{?(\w+)\}?", r"\1", prepared)
    tree = readers.expression(prepared.strip() or "0")
    if tree is None:
        raise NotKnown(text)
    try:
        return _Evaluator(lookup).value(tree)
    except (ZeroDivisionError, RecursionError):
        raise NotKnown(text) from None


class _Evaluator:
    def __init__(self, lookup: Callable[[str], str | None]) -> None:
        self._lookup = lookup

    def value(self, node: ast.AST) -> int:
        return _wrapped(self._value(node))

    def _value(self, node: ast.AST) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return int(node.value)
        if isinstance(node, ast.Name):
            return self._variable(node.id)
        if isinstance(node, ast.UnaryOp):
            inner = self.value(node.operand)
            return {ast.USub: -inner, ast.Not: int(not inner), ast.UAdd: inner}.get(type(node.op), ~inner)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            right = self.value(node.right)
            if isinstance(node.op, (ast.Pow, ast.LShift)) and not 0 <= right <= _MAX_EXPONENT:
                raise NotKnown(ast.dump(node))
            return _BINARY[type(node.op)](self.value(node.left), right)
        if isinstance(node, ast.BoolOp):
            values = [bool(self.value(item)) for item in node.values]
            return int(all(values) if isinstance(node.op, ast.And) else any(values))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return int(_COMPARE[type(node.ops[0])](self.value(node.left), self.value(node.comparators[0])))
        raise NotKnown(ast.dump(node))

    def _variable(self, name: str) -> int:
        text = self._lookup(name)
        if text is None:
            raise NotKnown(name)
        text = text.strip() or "0"
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
            raise NotKnown(name)
        return int(text)
