"""Say what harmless commands print, without running them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

from extractor.importers.runs.placeholders import unknowns

_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}


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


_PRINT: Mapping[str, Callable[[list[str]], str | None]] = {
    "echo": _echo,
    "basename": _base,
    "dirname": lambda arguments: (posixpath.dirname(arguments[0]) or ".") if len(arguments) == 1 else None,
}
