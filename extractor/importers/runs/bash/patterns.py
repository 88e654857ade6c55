"""Match bash's patterns: `*`, `?` and `[a-z]`. What is quoted in one stands behind a backslash."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"\\(?P<escaped>.)|\[(?P<not>[!^]?)(?P<set>\]?(?:\[:\w+:\]|\\.|[^\]\\])+)\]|(?P<other>.)", re.DOTALL
)
_CLASSES = {"digit": "0-9", "alpha": "a-zA-Z", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s"}
_MOST_STARS, _LONGEST = 4, 2_000


def escape(text: str) -> str:
    """Return the pattern that fits a text alone."""
    return re.sub(r"([\\*?\[\]()|!+@])", r"\\\1", text)


def matches(text: str, pattern: str) -> bool | None:
    """Tell whether all of a text fits a pattern; None: that is not read."""
    regex = _translate(pattern)
    return None if regex is None or len(text) > _LONGEST else re.fullmatch(regex, text, re.DOTALL) is not None


def trim(text: str, pattern: str, sign: str) -> str | None:
    """Return a text without the end that fits: `#` the shortest at its start, `%%` the longest at its end.

    None: that is not read.
    """
    regex = _translate(pattern)
    if regex is None or len(text) > _LONGEST:
        return None
    lengths = range(len(text) + 1) if len(sign) == 1 else range(len(text), -1, -1)
    for length in lengths:
        end = text[:length] if sign[0] == "#" else text[len(text) - length :]
        if re.fullmatch(regex, end, re.DOTALL):
            return text[length:] if sign[0] == "#" else text[: len(text) - length]
    return text


def replace(text: str, pattern: str, new: str, *, every: bool) -> str | None:
    """Return a text with the pieces that fit a pattern replaced; None: that is not read."""
    regex = _translate(pattern)
    if not regex or len(text) > _LONGEST:
        return None if regex is None else text
    return re.sub(regex, lambda found: new if found[0] else "", text, count=0 if every else 1, flags=re.DOTALL)


def _translate(pattern: str) -> str | None:
    """Return a regular expression; None for extended patterns and long ones."""
    stars = len(re.findall(r"(?<!\\)\*", pattern))
    if stars > _MOST_STARS or len(pattern) > _LONGEST or re.search(r"(?<!\\)[?*+@!]\(", pattern):
        return None
    parts = []
    for found in _PIECE.finditer(re.sub(r"(?<!\\)\*+", "*", pattern)):
        if found["set"]:
            inner = re.sub(r"\[:(\w+):\]", lambda name: _CLASSES.get(name[1], ""), found["set"])
            inner = re.sub(r"(?<!\\)([\[\]&~|])", r"\\\1", inner)
            parts.append(f"[{'^' if found['not'] else ''}{inner}]")
        else:
            other = found["other"] or ""
            parts.append({"*": ".*", "?": "."}.get(other) or re.escape(other or found["escaped"]))
    try:
        re.compile("".join(parts))
    except re.error:
        return None
    return "".join(parts)
