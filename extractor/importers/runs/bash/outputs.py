"""Say what harmless commands print, without running them."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence

from extractor.importers.runs.placeholders import find_unknowns


def find_output(words: Sequence[str], folder: str) -> str | None:
    """Return a command's output with its final newline; None if unknown.

    Args:
        words: Its name and arguments.
        folder: Where it runs.
    """
    if not words or any(map(find_unknowns, words)):
        return None
    name, arguments = words[0], list(words[1:])
    if name in ("true", "false", ":"):
        return ""
    known = _PRINT.get(name)
    found = folder if name == "pwd" else None if known is None else known(arguments)
    return None if found is None else f"{found}\n"


def _run_basename(arguments: list[str]) -> str | None:
    if not arguments or arguments[0].startswith("-"):
        return None
    return posixpath.basename(arguments[0].rstrip("/")).removesuffix("".join(arguments[1:2]))


_PRINT: Mapping[str, Callable[[list[str]], str | None]] = {
    "echo": lambda arguments: None if arguments[:1] and arguments[0].startswith("-") else " ".join(arguments),
    "basename": _run_basename,
    "dirname": lambda arguments: (posixpath.dirname(arguments[0]) or ".") if len(arguments) == 1 else None,
}
