"""The objects that there are at one point of a training script, and what they become where two ways meet."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from extractor.importers.runs.python.values import (
    DEEPEST,
    Computed,
    Either,
    FilePath,
    Items,
    Listed,
    Made,
    Object,
    Opened,
    Own,
    OwnClass,
    Ref,
    Scope,
)

_PLAIN = (str, int, float, bool, bytes, type(None))
# How much may be in a value altogether.
_MOST = 50_000
# How much of a value is shown.
_LONGEST = 200


class State:
    """The objects that there are at one point of a script.

    States share objects until one of them is looked at, which may change it.
    """

    def __init__(self, objects: Mapping[int, Object]) -> None:
        self.objects = dict(objects)
        self._shared = set(self.objects)

    def copy(self) -> State:
        """Return what can change by itself."""
        self._shared = set(self.objects)
        return State(self.objects)

    def of(self, value: Any) -> Object | None:
        """Return the object that a value is; None: it is none."""
        if not isinstance(value, Ref) or value.number not in self.objects:
            return None
        if value.number in self._shared:
            self._shared.discard(value.number)
            self.objects[value.number] = self.objects[value.number].copy()
        return self.objects[value.number]

    def frame(self, number: int) -> Items:
        """Return a frame, to be read."""
        found = self.objects[number]
        assert isinstance(found, Items)
        return found


# What there is at the end of each way that statements may take, and what is returned.
Way: TypeAlias = tuple[State, Any]
Ways: TypeAlias = dict[str, Way]


def joined(test: str, one: State, other: State) -> State:
    """Return what there is after one of two ways, which depends on what only the script knows.

    Args:
        test: The condition, as text; where it holds the first way is taken.
        one: What the first ends with.
        other: What the second ends with.
    """
    found = dict(one.objects)
    for number, item in other.objects.items():
        mine = found.get(number)
        if mine is not item:
            found[number] = item if mine is None else _either_object(test, mine, item, one, other)
            if isinstance(mine, Items) and isinstance(item, Items) and mine.is_open:
                _join_sections(found, number, test, (mine, one), (item, other), set())
    return State(found)


def _join_sections(
    found: dict[int, Object],
    number: int,
    test: str,
    way: tuple[Items, State],
    elsewhere: tuple[Items, State],
    seen: set[int],
) -> None:
    """Join the sections of a config that is not here: to look for one gives it nothing that the config has not.

    Args:
        found: The objects that there are after both ways.
        number: Of the config.
        test: The condition by which one way is taken.
        way: The config at its end, and the objects that there are.
        elsewhere: The same of the other way.
        seen: The configs that were joined.
    """
    made = found[number]
    assert isinstance(made, Items)
    seen.add(number)
    (mine, here), (item, there) = way, elsewhere
    for key in made.items:
        one, other = _open_section(mine, key, here), _open_section(item, key, there)
        if one is None and other is not None and key not in mine.items:
            made.items[key] = item.items[key]
            _doubt(found, item.items[key].number, f"not ({test})", there, set())
        elif other is None and one is not None and key not in item.items:
            made.items[key] = mine.items[key]
            _doubt(found, mine.items[key].number, test, here, set())
        elif one is not None and other is not None and mine.items[key] != item.items[key]:
            inner = mine.items[key].number
            made.items[key] = mine.items[key]
            found[inner] = _either_items(test, one, other, here, there)
            if inner not in seen:
                _join_sections(found, inner, test, (one, here), (other, there), seen)


def _open_section(config: Items, key: Any, state: State) -> Items | None:
    """Return what is under a key of a config where that is a section of one that is not here."""
    value = config.items.get(key)
    inside = state.objects.get(value.number) if isinstance(value, Ref) else None
    return inside if isinstance(inside, Items) and inside.is_open else None


def _doubt(found: dict[int, Object], number: int, test: str, here: State, seen: set[int]) -> None:
    seen.add(number)
    section = here.objects[number]
    assert isinstance(section, Items)
    made = section.copy()
    for key, value in section.items.items():
        if isinstance(value, Ref) and value.number in seen:
            continue
        if _open_section(section, key, here) is not None:
            _doubt(found, value.number, test, here, seen)
        else:
            made.items[key] = Computed(f"{text_of(value, here)} if {test} else None")
    found[number] = made


def either(test: str, one: Any, other: Any, there: State, elsewhere: State) -> Any:
    """Return a value that is one thing or another."""
    if _is_same(one, other):
        return one
    return Either.of(f"{text_of(one, there)} if {test} else {text_of(other, elsewhere)}", one, other)


def _either_object(test: str, mine: Object, item: Object, one: State, other: State) -> Object:
    if isinstance(mine, Items) and isinstance(item, Items):
        return _either_items(test, mine, item, one, other)
    if isinstance(mine, Listed) and isinstance(item, Listed):
        if len(mine.items) != len(item.items):
            same = itertools.takewhile(lambda pair: _is_same(*pair), zip(mine.items, item.items, strict=False))
            return Listed([value for value, _ in same], False, test)
        pairs = zip(mine.items, item.items, strict=True)
        return Listed([either(test, *pair, one, other) for pair in pairs], mine.is_whole and item.is_whole)
    if isinstance(mine, Made) and isinstance(item, Made):
        found = mine.copy()
        found.attributes = _either_items(test, mine.attributes, item.attributes, one, other)
        found.named = _either_items(test, mine.named, item.named, one, other)
        return found
    return mine


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _either_items(test: str, mine: Items, item: Items, one: State, other: State) -> Items:
    found = mine.copy()
    found.nodes |= {key: node for key, node in item.nodes.items() if key not in mine.nodes}
    found.is_whole, found.doubtful = mine.is_whole and item.is_whole, mine.doubtful | item.doubtful
    for key in dict.fromkeys([*mine.items, *item.items]):
        if key in mine.items and key in item.items:
            found.items[key] = either(test, mine.items[key], item.items[key], one, other)
        elif mine.is_frame:  # used where it has one
            found.items[key] = mine.items[key] if key in mine.items else item.items[key]
        elif key in mine.items:
            found.items[key] = Computed(f"{text_of(mine.items[key], one)} if {test} else None")
        else:
            found.items[key] = Computed(f"{text_of(item.items[key], other)} if not ({test}) else None")
    return found


def text_of(value: Any, state: State) -> str:
    """Return how a value is shown, cut where it is long."""
    return _shown(value, state)[:_LONGEST]


def _shown(value: Any, state: State) -> str:
    if isinstance(value, (Own, OwnClass)):
        return getattr(value.node, "name", "lambda")
    plain = plain_of(value, state)
    return str(plain) if isinstance(plain, Computed) else repr(plain)


def plain_of(value: Any, state: State, node: ast.expr | None = None) -> Any:
    """Return a value as Python has it; `Computed` where a part of it is not known.

    Args:
        value: The value.
        state: The objects that there are.
        node: The expression that it is from, whose text stands for what is not known.
    """
    try:
        return _plain(value, state, 0, itertools.count())
    except (ValueError, TypeError):
        text = str(value) if isinstance(value, Computed) else None
        return Computed(text or (ast.unparse(node) if node is not None else _named(value, state)))


def _named(value: Any, state: State) -> str:
    found = state.of(value)
    if isinstance(found, Made):
        return ast.unparse(found.node)
    return getattr(value, "name", None) or getattr(getattr(value, "node", None), "name", None) or "..."


def _plain(value: Any, state: State, depth: int, seen: Iterator[int]) -> Any:
    if isinstance(value, (Computed, Opened)) or depth > DEEPEST or next(seen) > _MOST:
        raise ValueError("not known")
    if isinstance(value, _PLAIN):
        if isinstance(value, str) and "${" in value:  # what is written so follows something
            raise ValueError("not known")
        return str(value) if isinstance(value, FilePath) else value
    if isinstance(value, (tuple, frozenset)):
        return [_plain(item, state, depth + 1, seen) for item in value]
    found = state.of(value)
    if isinstance(found, Items) and found.is_whole:
        return {key: _plain(item, state, depth + 1, seen) for key, item in found.items.items()}
    if isinstance(found, Listed) and found.is_whole:
        return [_plain(item, state, depth + 1, seen) for item in found.items]
    raise TypeError("no value")


@dataclass(frozen=True)
class Event:
    """A trainer or a config that a script makes.

    Attributes:
        made: What it is made with: arguments by name, and with what they are from.
        node: The call.
        of: The dotted name of what is called.
        scope: Where.
        state: The objects that there are then.
        ref: What it becomes.
    """

    made: Made
    node: ast.Call
    of: str
    scope: Scope
    state: State
    ref: Ref
