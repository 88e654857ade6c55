"""Say what harmless commands print, without running them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

from extractor.importers.runs.placeholders import unknowns

_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
_SETS = {"[:upper:]": "A-Z", "[:lower:]": "a-z", "[:digit:]": "0-9"}


def find_output(words: Sequence[str], folder: str) -> str | None:
    """Return what a command prints, with its last end of line; None: that is not known.

    Args:
        words: Its name and arguments.
        folder: Where it runs.
    """
    if not words or any(map(unknowns, words)):
        return None
    name, arguments = words[0], list(words[1:])
    if name in ("true", "false", ":"):
        return ""
    if name == "pwd":
        return f"{folder}\n"
    known = _PRINT.get(name)
    found = None if known is None else known(arguments)
    return found if found is None or name == "echo" else f"{found}\n"


def filter_text(text: str | None, words: Sequence[str]) -> str | None:
    """Return what a command in a pipeline makes of what it reads; None: that is not known."""
    if text is None or not words or unknowns(text) or any(map(unknowns, words)):
        return None
    known = _FILTER.get(words[0])
    found = None if known is None else known(text.removesuffix("\n"), list(words[1:]))
    return None if found is None else f"{found}\n"


def _unescape(text: str) -> str:
    return re.sub(r"\\[nt\\]", lambda found: _ESCAPES[found[0]], text)


def _echo(arguments: list[str]) -> str:
    options = ""
    while arguments and re.fullmatch("-[neE]+", arguments[0]):
        options += arguments.pop(0)
    text = _unescape(" ".join(arguments)) if "e" in options else " ".join(arguments)
    return text if "n" in options else f"{text}\n"


def _base(arguments: list[str]) -> str | None:
    if not arguments or arguments[0].startswith("-"):
        return None
    return posixpath.basename(arguments[0].rstrip("/")).removesuffix("".join(arguments[1:2]))


def _tr(text: str, arguments: list[str]) -> str | None:
    sets = [_characters(item) for item in arguments if not item.startswith("-")]
    if arguments[:1] == ["-d"] and len(sets) == 1:
        return "".join(letter for letter in text if letter not in sets[0])
    if len(arguments) != 2 or len(sets) != 2 or not sets[1]:
        return None
    last = len(sets[1]) - 1
    return text.translate({ord(old): sets[1][min(place, last)] for place, old in enumerate(sets[0])})


def _characters(text: str) -> str:
    """Return the characters that `a-z`, `[:upper:]` or `/` name."""
    for name, span in _SETS.items():
        text = text.replace(name, span)
    text = _unescape(text)
    return re.sub(r"(\w)-(\w)", lambda span: "".join(map(chr, range(ord(span[1]), ord(span[2]) + 1))), text)


_PRINT: Mapping[str, Callable[[list[str]], str | None]] = {
    "echo": _echo,
    "basename": _base,
    "dirname": lambda arguments: (posixpath.dirname(arguments[0]) or ".") if len(arguments) == 1 else None,
}
_FILTER: Mapping[str, Callable[[str, list[str]], str | None]] = {"tr": _tr}
