# vextract:template base/__package__/settings/suggestions.py - edit freely
"""What a mistyped name most likely meant."""

import ast
import difflib
from collections.abc import Container, Iterable
from pathlib import Path

from ..absent import SHIPPED

# What settings are called in TRL and in scripts; and were called in earlier releases, where a section stands for all
# that is in it.
ALIASES: dict[str, str] = SHIPPED["aliases"]
FORMER_KEYS: dict[str, str] = SHIPPED["former_keys"]


def meant_setting(key: str, known: Iterable[str], sections: Iterable[str]) -> str | None:
    """Find the setting that an unknown key most likely meant: by what it is called elsewhere, then by its letters.

    Args:
        key: what was typed.
        known: the settings.
        sections: what holds settings; named only where no setting is near.
    """
    settings = set(known)
    section, _, last = key.rpartition(".")
    alias = ALIASES.get(last, "")
    if not any(name.endswith(f".{last}") for name in settings) or not section:
        for name in (f"{section}.{alias.rpartition('.')[2]}", alias):
            if name in settings:
                return name
    return nearest(key, settings) or nearest(key, sections)


def present_name(key: str, known: Container[str]) -> str | None:
    """Return the present name of a setting with a former one; None where it had no other, or that is unknown too."""
    parts = key.split(".")
    for end in range(len(parts), 0, -1):
        new = FORMER_KEYS.get(".".join(parts[:end]))
        if new is not None:
            return ".".join([new, *parts[end:]]) if new in known else None
    return None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that a mistyped one most likely meant: whole names first, then their last parts."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    if close:
        return close[0]
    last = name.rsplit(".", 1)[-1]
    same_end = [candidate for candidate in names if candidate.rsplit(".", 1)[-1] == last]
    if same_end:
        return difflib.get_close_matches(name, same_end, n=1, cutoff=0.0)[0]
    ends = {candidate.rsplit(".", 1)[-1]: candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(last, sorted(ends), n=1, cutoff=0.7)
    return ends[close[0]] if close else None


def choose(name: str, options: Iterable[str]) -> str:
    """Word a hint on what to choose instead of an unknown name: the nearest one first."""
    names = sorted(options)
    # Of equals one with the same letters: gpro is grpo rather than gspo.
    close = sorted(difflib.get_close_matches(name, names, n=4), key=lambda other: sorted(other) != sorted(name))
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{meant}{'There are' if meant else 'choose one of'}: {', '.join(names)}"


def choose_defined(name: str | None, there: list[str]) -> str | None:
    """Word which of a file's names to give instead of another; the nearest comes first, so that it can be typed."""
    if not there or name in there:
        return None
    first = (difflib.get_close_matches(str(name), there, n=1, cutoff=0.0) or there)[0]
    others = [other for other in there if other != first]
    return f"{first}" + (f" (it has {', '.join(others)} as well)" if others else "")


def functions_in(path: str | Path) -> list[str]:
    """List the public functions that a Python file defines; none where it cannot be read."""
    try:
        tree = ast.parse(Path(path).expanduser().read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    functions = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [node.name for node in functions if not node.name.startswith("_")]
