"""Patterns: `*`, `?`, `[a-z]`, and those of extglob, `+(a|b)`. What is quoted in one stands behind a backslash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

_BRACKET = re.compile(r"\[[!^]?(?:\]|\[:\w+:\]|\\.|[^\]\\])(?:\[:\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
_CLASS = re.compile(r"\[:(\w+):\]")
_CLASSES = {
    "digit": "0-9",
    "alpha": "a-zA-Z",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9a-fA-F",
    "space": " \t\n\r\f\v",
    "blank": " \t",
    "punct": "!-/:-@[-`{-~",
    "word": "a-zA-Z0-9_",
}
_EXTENDED = re.compile(r"[?*+@!]\(")
# A longer text is not compared with an extended pattern: the time grows with the square of its length.
_LONGEST = 500
_Part = tuple[str, tuple[tuple["_Part", ...], ...]]


def fits(text: str, pattern: str) -> bool | None:
    """Tell whether all of a text fits a pattern; None: that would take long."""
    if _EXTENDED.search(pattern) is None:
        return fnmatchcase(text, _plain(pattern))
    if len(text) > _LONGEST or len(pattern) > _LONGEST:
        return None
    return len(text) in _ends(_parsed(pattern), text, {0})


def is_literal(pattern: str) -> bool:
    """Tell whether a pattern fits no more than one text."""
    return re.search(r"[\[*?]|[+@!]\(", re.sub(r"\\.", "", pattern, flags=re.DOTALL)) is None


def meant(pattern: str) -> str:
    """Return the text that a pattern fits which fits only one."""
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


@lru_cache(256)
def _plain(pattern: str) -> str:
    """Return a pattern as fnmatch has it, that knows no backslash and no classes."""
    return "".join(_translated(part) for part in _parts(pattern))


def _translated(part: str) -> str:
    if part[0] == "\\" and len(part) > 1:
        return f"[{part[1]}]" if part[1] in "*?[" else part[1]
    if part[0] == "[":
        return _bracket(part) if len(part) > 1 else "[[]"
    return part


def _bracket(part: str) -> str:
    inner = _CLASS.sub(lambda found: _CLASSES.get(found[1], ""), part[1:-1])
    inner = f"!{inner[1:]}" if inner[0] in "!^" else inner
    inner = re.sub(r"\\(.)", r"\1", inner)
    # fnmatch takes "]" for a part of the set only at its start.
    if "]" in inner.lstrip("!"):
        inner = f"{'!' if inner[0] == '!' else ''}]{inner.lstrip('!').replace(']', '')}"
    return f"[{inner}]"


def _parts(pattern: str) -> Iterator[str]:
    """Yield a pattern's characters, each with its backslash, and sets."""
    at = 0
    while at < len(pattern):
        found = _BRACKET.match(pattern, at) if pattern[at] == "[" else None
        end = found.end() if found is not None else at + (2 if pattern[at] == "\\" else 1)
        yield pattern[at:end]
        at = end


def _parsed(pattern: str) -> tuple[_Part, ...]:
    return _sequence(list(_parts(pattern)), 0)[0][0]


def _sequence(parts: Sequence[str], at: int, inside: bool = False) -> tuple[tuple[tuple[_Part, ...], ...], int]:
    """Return the alternatives that begin at a part, and where they end."""
    found: list[list[_Part]] = [[]]
    while at < len(parts):
        part = parts[at]
        if part in ("?", "*", "+", "@", "!") and parts[at + 1 : at + 2] == ["("]:
            inner, at = _sequence(parts, at + 2, True)
            found[-1].append((f"{part}(", inner))
            continue
        at += 1
        if inside and part == ")":
            break
        if inside and part == "|":
            found.append([])
        else:
            found[-1].append((part, ()))
    return tuple(map(tuple, found)), at


def _ends(parts: Sequence[_Part], text: str, starts: set[int]) -> set[int]:
    """Return where what fits parts of a pattern may end."""
    for sign, inner in parts:
        if not starts:
            break
        if inner:
            starts = _extended(sign, inner, text, starts)
        elif sign == "*":
            starts = set(range(min(starts), len(text) + 1))
        else:
            one = _translated(sign)
            starts = {at + 1 for at in starts if at < len(text) and fnmatchcase(text[at], one)}
    return starts


def _extended(sign: str, inner: Sequence[Sequence[_Part]], text: str, starts: set[int]) -> set[int]:
    if sign == "!(":
        return {end for at in starts for end in set(range(at, len(text) + 1)) - _either(inner, text, {at})}
    once = _either(inner, text, starts)
    if sign in ("@(", "?("):
        return once | (starts if sign == "?(" else set())
    found, new = set(once), once
    while new:
        new = _either(inner, text, new) - found
        found |= new
    return found | (starts if sign == "*(" else set())


def _either(inner: Sequence[Sequence[_Part]], text: str, starts: set[int]) -> set[int]:
    return {end for parts in inner for end in _ends(parts, text, starts)}
