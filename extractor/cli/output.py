"""Printing: data to stdout, everything else to stderr; plain off a terminal and under NO_COLOR."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn, TextIO

_GLUE = "\0"
_IN_BACKTICKS = re.compile(r"`[^`]*`")
_NARROWEST = 20
# Characters that a terminal obeys, or that change the order in which it shows others.
_OBEYED = re.compile("[^\\n\\t -~\u00a0-\U0010ffff]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    r"""Make control characters visible, as in a file named `\x1b[2J`."""
    return _OBEYED.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


def data(text: str, *, styled: bool = False) -> None:
    """Print data.

    Args:
        styled: whether it has our own colours in it, and nothing else that a terminal obeys.
    """
    try:
        print(text if styled else plain(text), flush=True)
    except BrokenPipeError:
        reader_left()


def reader_left() -> NoReturn:
    """Silence Python's flush at exit after the reader of stdout has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(141) from None


def data_json(value: object) -> None:
    """Print data as JSON."""
    import json

    data(json.dumps(value, indent=2, ensure_ascii=False))


def write_file(path: Path, text: str) -> None:
    """Write a file that the user has named.

    Raises:
        UsageError: it cannot be written.
    """
    from extractor.values.errors import UsageError

    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="choose another file, in a directory that exists") from None
    note(f"wrote {path}")


def note(text: str) -> None:
    """Say something that is not data."""
    _say(plain(text))


def warning(text: str) -> None:
    """Warn."""
    _say(f"{_paint('warning:', '33')} {plain(text)}")


def error(text: str, hint: str | None) -> None:
    """Say what went wrong, and what to do next."""
    _say(f"{_paint('error:', '1;31')} {plain(text)}")
    if hint:
        _say(f"{_paint('hint:', '36')} {plain(hint)}")


def _say(text: str) -> None:
    print(_wrapped(text, sys.stderr), file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(text: str) -> Iterator[None]:
    """Show that something goes on, on a terminal."""
    if not _fancy(sys.stderr):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


@contextlib.contextmanager
def steps(text: str) -> Iterator[Callable[[str], None]]:
    """Show progress on a terminal; yields a function that names the step."""
    if not _fancy(sys.stderr):
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield lambda step: status.update(f"{text}: {plain(step)}")


def width_of(stream: TextIO) -> int | None:
    """Return a terminal's columns, or None off a terminal."""
    return max(_NARROWEST, shutil.get_terminal_size().columns) if stream.isatty() else None


def _wrapped(text: str, stream: TextIO) -> str:
    """Break lines between words where a terminal would break them anywhere.

    What stands in backticks stays whole, spaces and all, so that it can be copied; so does a word that is too long.
    """
    import textwrap

    width = width_of(stream)
    if width is None:
        return text
    wrapper = textwrap.TextWrapper(
        width, break_long_words=False, break_on_hyphens=False, replace_whitespace=False, drop_whitespace=True
    )
    lines = []
    for line in text.splitlines():
        kept = _IN_BACKTICKS.sub(lambda found: found.group().replace(" ", _GLUE), line)
        wrapper.subsequent_indent = " " * (len(line) - len(line.lstrip()))
        lines += [part.replace(_GLUE, " ") for part in wrapper.wrap(kept)] or [""]
    return "\n".join(lines)


def _paint(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if _fancy(sys.stderr) else text


def _fancy(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
