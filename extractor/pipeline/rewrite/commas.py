"""Remove elements of a comma-separated list without changing its layout."""

from collections.abc import Sequence
from typing import TypeVar

import libcst as cst

Item = TypeVar("Item", cst.ImportAlias, cst.BaseElement, cst.Arg)


def keep_only(items: Sequence[Item], keep: Sequence[bool]) -> list[Item]:
    """Keep marked items; the last gets the former last comma."""
    left = [item for item, stays in zip(items, keep, strict=True) if stays]
    if left and not keep[-1]:
        left[-1] = left[-1].with_changes(comma=items[-1].comma)
    return left


def has_comment(node: cst.CSTNode) -> bool:
    """Return True where a comment stands between the elements."""
    return isinstance(node, cst.Comment) or any(has_comment(child) for child in node.children)
