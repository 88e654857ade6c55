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
# A longer text is not compared with an extended pattern, nor a text with a longer one.
_LONGEST_TEXT, _LONGEST = 20_000, 500
# Steps of a comparison, each of a microsecond for a thousand characters: with nested `!(...)` they multiply.
_MOST_STEPS = 100_000
_Part = tuple[str, tuple[tuple["_Part", ...], ...]]


def fits(text: str, pattern: str) -> bool | None:
    """Tell whether all of a text fits a pattern; None: that would take long."""
    found = _ends_of(text, pattern)
    return None if found is None else bool(found >> len(text) & 1)


def trimmed(text: str, pattern: str, operation: str) -> str | None:
    """Return a text without the end that fits a pattern: `#` the shortest at its start, `%%` the longest at its end.

    None: that would take long.
    """
    at_end, longest = operation[0] == "%", len(operation) == 2
    found = _ends_of(text, pattern, backwards=at_end)
    if not found:
        return None if found is None else text
    length = found.bit_length() - 1 if longest else _lowest(found)
    return text[: len(text) - length] if at_end else text[length:]


def replaced(text: str, pattern: str, new: str, *, every: bool) -> str | None:
    """Return a text with the longest pieces that fit a pattern replaced, as bash does; None: that would take long."""
    whole = (1 << len(text) + 1) - 1
    ends = _ends_of(text, pattern, whole, backwards=True)  # where a piece begins, counted from the end
    if ends is None:
        return None
    if not text:
        return new if ends and pattern.startswith("*") else text
    begins = f"{ends:0{len(text) + 1}b}"  # "1" at each place where a piece begins
    parts = _parsed(pattern, False)
    fixed = not any(inner or sign == "*" for sign, inner in parts)
    matcher = _Matcher(text)
    found, at = [], 0
    while at < len(text) and (first := begins.find("1", at, len(text))) >= 0:
        found.append(text[at:first])
        try:
            end = first + len(parts) if fixed else matcher.ends(parts, 1 << first).bit_length() - 1
        except _TooLong:
            return None
        found.append(new if end > first else text[first])  # what fits nothing alone stays
        at = max(end, first + 1)
        if end > first and not every:
            break
    return "".join(found) + text[at:]


def is_literal(pattern: str) -> bool:
    """Tell whether a pattern fits no more than one text."""
    return re.search(r"[\[*?]|[+@!]\(", re.sub(r"\\.", "", pattern, flags=re.DOTALL)) is None


def meant(pattern: str) -> str:
    """Return the text that a pattern fits which fits only one."""
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


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


@lru_cache(256)
def _parsed(pattern: str, backwards: bool) -> tuple[_Part, ...]:
    parts = _sequence(list(_parts(pattern)), 0)[0][0]
    return _turned(parts) if backwards else parts


def _turned(parts: Sequence[_Part]) -> tuple[_Part, ...]:
    """Return what fits a text that is read from its end."""
    return tuple((sign, tuple(map(_turned, inner))) for sign, inner in reversed(parts))


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


class _TooLong(Exception):
    """A comparison would take long."""


def _ends_of(text: str, pattern: str, starts: int = 1, *, backwards: bool = False) -> int | None:
    """Return where what fits a pattern may end, as a number whose bit N is set for the place N; None: it takes long.

    Args:
        text: The text.
        pattern: The pattern.
        starts: Where it may begin, in the same form.
        backwards: Read both from their ends.
    """
    if _EXTENDED.search(pattern) is not None and (len(text) > _LONGEST_TEXT or len(pattern) > _LONGEST):
        return None
    try:
        return _Matcher(text[::-1] if backwards else text).ends(_parsed(pattern, backwards), starts)
    except _TooLong:
        return None


class _Matcher:
    """Follows all ways through a pattern at once, so that nothing is tried twice.

    Args:
        text: What is compared.

    Raises:
        _TooLong: by `ends`, after too many steps.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = _MOST_STEPS
        self._whole = (1 << len(text) + 1) - 1
        self._places: dict[str, int] = {}

    def ends(self, parts: Sequence[_Part], starts: int) -> int:
        """Return where what fits parts of a pattern may end."""
        for sign, inner in parts:
            if not starts:
                break
            self._left -= 1 + len(self._text) // 1000
            if self._left < 0:
                raise _TooLong
            if inner:
                starts = self._extended(sign, inner, starts)
            elif sign == "*":
                starts = self._whole & ~((starts & -starts) - 1)
            else:
                starts = (starts & self._of(sign)) << 1
        return starts

    def _of(self, part: str) -> int:
        """Return the places of the characters that fit one part."""
        if part not in self._places:
            one = _translated(part)
            fitting = {letter for letter in set(self._text) if fnmatchcase(letter, one)}
            self._places[part] = int("0" + "".join("1" if letter in fitting else "0" for letter in self._text[::-1]), 2)
        return self._places[part]

    def _extended(self, sign: str, inner: Sequence[Sequence[_Part]], starts: int) -> int:
        if sign == "!(":
            found = 0
            while starts:
                first = starts & -starts
                found |= self._whole & ~(first - 1) & ~self._either(inner, first)
                starts ^= first
            return found
        once = self._either(inner, starts)
        if sign in ("@(", "?("):
            return once | (starts if sign == "?(" else 0)
        found, new = once, once
        while new:
            new = self._either(inner, new) & ~found
            found |= new
        return found | (starts if sign == "*(" else 0)

    def _either(self, inner: Sequence[Sequence[_Part]], starts: int) -> int:
        found = 0
        for parts in inner:
            found |= self.ends(parts, starts)
        return found


def _lowest(places: int) -> int:
    return (places & -places).bit_length() - 1
