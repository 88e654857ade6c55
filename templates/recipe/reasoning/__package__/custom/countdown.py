# vextract:hook  yours: written once, never touched by an upgrade
"""Whether an expression solves a countdown problem. Nothing is executed: it is read and computed exactly."""

import ast
import operator
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
LONGEST = 200


def solves(expression: str, numbers: Sequence[int], target: int) -> bool:
    """Tell whether an expression has the value `target` and uses each of `numbers` exactly once.

    Args:
        expression: as in `(3 + 5) * 7`; an equals sign and what follows it are left out.
    """
    text = expression.split("=")[0].replace("×", "*").replace("÷", "/").strip()
    if not text or len(text) > LONGEST:
        return False
    used: list[int] = []
    try:
        value = _value(ast.parse(text, mode="eval").body, used)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return False
    return value == target and Counter(used) == Counter(int(number) for number in numbers)


def _value(node: ast.expr, used: list[int]) -> Fraction:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        result: Fraction = OPERATIONS[type(node.op)](_value(node.left, used), _value(node.right, used))
        return result
    if isinstance(node, ast.Constant) and type(node.value) is int:
        used.append(node.value)
        return Fraction(node.value)
    raise ValueError("neither a whole number nor one of the four operations")
