"""Find what is reachable in a graph."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def find_reachable(starts: Iterable[T], edges: Callable[[T], Iterable[T]]) -> set[T]:
    """Return the starts and everything reachable from them.

    Args:
        starts: Where to begin.
        edges: What one of them leads to.
    """
    found: set[T] = set()
    pending = list(starts)
    while pending:
        item = pending.pop()
        if item not in found:
            found.add(item)
            pending += edges(item)
    return found
