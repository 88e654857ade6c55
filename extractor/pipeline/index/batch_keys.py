"""The keys that code reads from a batch, a `DataProto`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator


def keys_read(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the keys that code reads from a batch, and where: `data.meta_info["key"]`."""
    for item in nodes:
        if (
            isinstance(item, ast.Subscript)
            and isinstance(item.ctx, ast.Load)
            and isinstance(item.value, ast.Attribute)
            and item.value.attr in ("batch", "meta_info")
            and isinstance(item.slice, ast.Constant)
            and isinstance(item.slice.value, str)
        ):
            yield id(item.slice), item.slice.value
