"""Find the keys that code reads from a `DataProto`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

# The columns that a trainer makes; and those of the data, to which it may add some.
MADE, OF_ROWS = ("batch", "meta_info"), ("non_tensor_batch",)
# What reward managers say of each response becomes columns of the batch.
EXTRA = "reward_extra_info"
# So does what a loop of an agent gives beside the tokens of a response.
FIELDS = "extra_fields"


def keys_read(nodes: Iterable[ast.AST], of: Collection[str] = MADE) -> Iterator[tuple[int, str]]:
    """Yield the batch keys that code reads, with their nodes.

    `data.meta_info["key"]`, `data.select(batch_keys=[...])`.

    Of a list of columns those count that it is made with, and not what is appended on a condition.
    """
    nodes = list(nodes)
    yield from _keys(nodes, of, ast.Load)
    if of == MADE:
        yield from _selected(nodes)


def keys_written(nodes: Iterable[ast.AST], of: Collection[str] = OF_ROWS) -> Iterator[str]:
    """Yield the batch keys that code writes.

    `data.non_tensor_batch["key"] = ...`.

    So do a reward manager by what it says of each response, `reward_extra_info["key"].append(...)`, and the loop of an
    agent: `AgentLoopOutput(extra_fields={"key": ...})`, `output.extra_fields["key"] = ...` or `.update({"key": ...})`.
    """
    nodes = list(nodes)
    for _, key in _keys(nodes, of, ast.Store):
        yield key
    for item in nodes:
        if isinstance(item, ast.Subscript) and isinstance(item.slice, ast.Constant) and _is_named(item.value, EXTRA):
            yield str(item.slice.value)
    yield from _fields(nodes)


def keys_stored(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the keys under which code stores something anywhere: `x["key"] = ...`."""
    stores = (item for item in nodes if isinstance(item, ast.Subscript) and isinstance(item.ctx, ast.Store))
    yield from texts(item.slice for item in stores)


def texts(nodes: Iterable[ast.AST | None]) -> Iterator[str]:
    """Yield the texts among some nodes."""
    yield from (item.value for item in nodes if isinstance(item, ast.Constant) and isinstance(item.value, str))


def _fields(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the keys of what a response has beside its tokens."""
    for item in nodes:
        keys: list[ast.expr | None] = []
        if isinstance(item, ast.keyword) and item.arg == FIELDS and isinstance(item.value, ast.Dict):
            keys = item.value.keys
        elif isinstance(item, ast.Subscript) and isinstance(item.ctx, ast.Store) and _is_named(item.value, FIELDS):
            keys = [item.slice]
        elif isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and _is_named(item.func.value, FIELDS):
            keys = [key for given in item.args if isinstance(given, ast.Dict) for key in given.keys]
        yield from texts(keys)


def _selected(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the batch columns that code selects by literal names."""
    given: list[ast.expr] = []
    lists: dict[str, list[ast.expr]] = {}
    for item in nodes:
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr in ("select", "pop"):
            given += [keyword.value for keyword in item.keywords if keyword.arg == "batch_keys"]
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            lists.setdefault(item.targets[0].id, []).append(item.value)
    for value in given:
        for found in lists.get(value.id, ()) if isinstance(value, ast.Name) else (value,):
            for item in found.elts if isinstance(found, ast.List) else ():
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    yield id(item), item.value


def _is_named(node: ast.expr, name: str) -> bool:
    found = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return found == name


def _keys(nodes: Iterable[ast.AST], of: Collection[str], context: type[ast.expr_context]) -> Iterator[tuple[int, str]]:
    for item in nodes:
        if (
            isinstance(item, ast.Subscript)
            and isinstance(item.ctx, context)
            and isinstance(item.value, ast.Attribute)
            and item.value.attr in of
            and isinstance(item.slice, ast.Constant)
            and isinstance(item.slice.value, str)
        ):
            yield id(item.slice), item.slice.value
