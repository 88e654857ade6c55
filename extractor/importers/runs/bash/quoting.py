"""Where quoted texts and expansions end in a text of bash, for what the parser leaves in one piece or takes apart."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])")
# A default: between double quotes, single ones in it quote nothing.
_DEFAULT = re.compile(r"\$\{[!#]?[\w@*]+(?:\[[^\]]*\])?:?[-+=?]")
_GLOB = re.compile(r"([\\*?\[\]()|!+@])")
_ANSI = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<code>[0-9a-fA-F]{1,4})|(?P<letter>.))", re.S
)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\033", "f": "\f", "v": "\v"}
_DEEPEST = 100


def pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces: quoted texts with their quotes, `\\x`, expansions, and characters."""
    at = 0
    while at < len(text):
        end = end_of(text, at)
        yield text[at:end]
        at = end


def end_of(text: str, at: int, quoted: bool = False, depth: int = 0) -> int:
    """Return where the quoted text, the expansion or the character ends that begins at a place.

    Args:
        text: Of bash.
        at: The place.
        quoted: Whether that is between double quotes.
        depth: How many of them it stands in.
    """
    mark, last = text[at], len(text)
    if depth > _DEEPEST:
        return last
    if mark == "\\":
        return min(at + 2, last)
    if mark == "$":
        return _expansion_end(text, at, quoted, depth)
    if mark == "`" or (mark == "'" and not quoted):
        return _closed(text, at + 1, mark, escapes=mark == "`")
    if mark == '"' and not quoted:
        at += 1
        while at < last and text[at] != '"':
            at = end_of(text, at, True, depth + 1)
        return min(at + 1, last)
    return at + 1


def unquoted(text: str, mark: str, at: int = 0) -> int:
    """Return where a character first stands outside of quotes and expansions, from a place on; -1: nowhere."""
    at = end_of(text, 0) if at and text else 0
    while at < len(text):
        if text[at] == mark:
            return at
        at = end_of(text, at)
    return -1


def literal(text: str) -> str:
    """Return the pattern that fits a text alone."""
    return _GLOB.sub(r"\\\1", text)


def ansi(text: str) -> str:
    """Return what `$'...'` stands for."""

    def meant(found: re.Match[str]) -> str:
        if found["octal"]:
            return chr(int(found["octal"], 8) % 256)
        if found["hex"] or found["code"]:
            return chr(int(found["hex"] or found["code"], 16))
        letter = found["letter"]
        return _LETTERS.get(letter, letter if letter in "'\"\\?" else found[0])

    return _ANSI.sub(meant, text[2:-1])


def _expansion_end(text: str, at: int, quoted: bool, depth: int) -> int:
    following = text[at + 1 : at + 2]
    if following == "'" and not quoted:
        return _closed(text, at + 2, "'", escapes=True)
    if following == '"' and not quoted:
        return end_of(text, at + 1, False, depth)
    if following == "{":
        characters = quoted and _DEFAULT.match(text, at) is not None
        return _balanced(text, at + 2, "{}", characters, depth)
    if following == "(":
        return _balanced(text, at + 2, "()", False, depth)
    name = _NAME.match(text, at)
    return name.end() if name is not None else at + 1


def _balanced(text: str, at: int, pair: str, characters: bool, depth: int) -> int:
    """Return where brackets close that are open; braces that expansions do not open count for nothing."""
    level = 1
    while at < len(text) and level:
        if text[at] == pair[1]:
            level, at = level - 1, at + 1
        elif text[at] == pair[0] == "(":
            level, at = level + 1, at + 1
        elif text[at] == '"':
            at = end_of(text, at, False, depth + 1)
        else:
            at = end_of(text, at, characters, depth + 1)
    return at


def _closed(text: str, at: int, mark: str, *, escapes: bool) -> int:
    while at < len(text) and text[at] != mark:
        at += 2 if escapes and text[at] == "\\" else 1
    return min(at + 1, len(text))
