"""Describe a vendored file's changes for vextract.lock and NOTICE."""

import re
from collections.abc import Iterable, Sequence

_DROPPED = "dropped {} method{} whose names nothing uses: "
_LISTED = re.compile(r"dropped \d+ methods? whose names nothing uses: (.+)")
_FIX = re.compile(r"fix ([\w.-]+): ")


def describe_dropped_methods(names: Sequence[str]) -> list[str]:
    """Describe the methods that a file's classes lack; `read_dropped_methods` parses it.

    Args:
        names: "Class.method", in order.
    """
    if not names:
        return []
    classes: dict[str, list[str]] = {}
    for name in names:
        holder, _, method = name.partition(".")
        classes.setdefault(holder, []).append(method)
    listed = "; ".join(f"{holder}: {', '.join(methods)}" for holder, methods in classes.items())
    return [f"{_DROPPED.format(len(names), 's' if len(names) > 1 else '')}{listed}"]


def read_dropped_methods(changes: Iterable[str]) -> tuple[str, ...]:
    """Return dropped methods ("Class.method") named in the changes, in order."""
    found = next(filter(None, map(_LISTED.fullmatch, changes)), None)
    if found is None:
        return ()
    classes = (part.partition(": ") for part in found[1].split("; "))
    return tuple(f"{holder}.{method}" for holder, _, methods in classes for method in methods.split(", "))


def read_named_fixes(changes: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of the named fixes among changes."""
    return tuple(found[1] for found in map(_FIX.match, changes) if found)


def join_names(names: list[str], width: int) -> str:
    """Join names up to a width: "a, b and 3 more"."""
    shown = ""
    for index, name in enumerate(names):
        longer = f"{shown}, {name}" if shown else name
        if index > 2 and len(longer) > width:
            return f"{shown} and {len(names) - index} more"
        shown = longer
    return shown
