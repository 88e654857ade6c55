"""Items of arrays and maps: what has one place in them, and what leaves a hole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extractor.importers.runs.bash.arithmetic import NotKnown, evaluate

if TYPE_CHECKING:
    from extractor.importers.runs.bash.state import State, Value


class Sparse(dict[str, str]):
    """Holds an array with holes: its keys are numbers, in order."""


def key_of(state: State, array: Value | None, text: str) -> str | None:
    """Return the place that stands between brackets: a number, or the key of a map; None: it is not known.

    Args:
        state: Of the script.
        array: What it is a place of.
        text: What stands there, expanded.
    """
    if isinstance(array, dict) and not isinstance(array, Sparse):
        return text
    try:
        number = evaluate(text, state.number)
    except NotKnown:
        return None
    keys = keys_of(array)
    return str(number if number >= 0 or not keys else int(keys[-1]) + 1 + number)


def keys_of(value: Value | None) -> list[str]:
    """Return the places of what a variable has; of a plain text, the first."""
    if isinstance(value, dict):
        return list(value)
    return [str(index) for index in range(len(value))] if isinstance(value, list) else [] if value is None else ["0"]


def values_of(value: Value | None) -> list[str]:
    """Return what a variable has, in order."""
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else [] if value is None else [value]


def with_item(array: Value | None, key: str, text: str) -> Value:
    """Return an array or a map with one item set."""
    if isinstance(array, dict) and not isinstance(array, Sparse):
        return {**array, key: text}
    return _ordered({**dict(zip(keys_of(array), values_of(array), strict=True)), key: text})


def without_item(array: Value, key: str) -> Value:
    """Return an array or a map without an item."""
    left = {at: item for at, item in zip(keys_of(array), values_of(array), strict=True) if at != key}
    return left if isinstance(array, dict) and not isinstance(array, Sparse) else _ordered(left)


def joined(array: Value | None, more: list[str]) -> Value:
    """Return an array with items behind its last one."""
    if isinstance(array, Sparse):
        first = int(list(array)[-1]) + 1 if array else 0
        return Sparse({**array, **{str(first + index): item for index, item in enumerate(more)}})
    return [*values_of(array), *more]


def _ordered(items: dict[str, str]) -> Value:
    """Return an array of items by their numbers: a plain one where none is missing."""
    keys = sorted(items, key=int)
    if keys == [str(index) for index in range(len(keys))]:
        return [items[key] for key in keys]
    return Sparse({key: items[key] for key in keys})
