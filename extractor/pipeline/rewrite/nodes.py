"""Helpers for libcst nodes, without the slow import of `libcst.matchers`."""

from collections.abc import Sequence
from typing import TypeVar

import libcst as cst

Item = TypeVar("Item", cst.ImportAlias, cst.BaseElement, cst.Arg)


def is_import(statement: cst.CSTNode) -> bool:
    """Return True for a line that is one import statement."""
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and len(statement.body) == 1
        and isinstance(statement.body[0], (cst.Import, cst.ImportFrom))
    )


def is_docstring(statement: cst.CSTNode) -> bool:
    """Tell whether a line holds only a string."""
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and len(statement.body) == 1
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def is_method_call(node: cst.CSTNode, name: str) -> bool:
    """Return True for `anything.name(...)`."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name


def keep_only(items: Sequence[Item], keep: Sequence[bool]) -> list[Item]:
    """Keep marked items; the last gets the former last comma."""
    left = [item for item, stays in zip(items, keep, strict=True) if stays]
    if left and not keep[-1]:
        left[-1] = left[-1].with_changes(comma=items[-1].comma)
    return left


def has_comment(node: cst.CSTNode) -> bool:
    """Return True where a comment stands between the elements."""
    return isinstance(node, cst.Comment) or any(has_comment(child) for child in node.children)
