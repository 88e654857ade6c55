"""Match bash patterns: `*`, `?` and `[a-z]`; quoted characters are backslashed."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

_EXTENDED = re.compile(r"(?<!\\)[?*+@!]\(|\[:\w+:\]")
_MOST_STARS, _LONGEST = 4, 2_000


def escape_pattern(text: str) -> str:
    """Return a pattern that matches only this text."""
    return re.sub(r"([\\*?\[\]()|!+@])", r"\\\1", text)


def matches(text: str, pattern: str) -> bool | None:
    """Tell whether a text matches; None if the pattern is unsupported."""
    if pattern.count("*") > _MOST_STARS or max(len(text), len(pattern)) > _LONGEST or _EXTENDED.search(pattern):
        return None
    escaped = re.sub(r"\\(.)", lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], pattern, flags=re.S)
    return fnmatchcase(text, escaped.replace("[^", "[!"))
