"""Printing: data to stdout, everything else to stderr; plain off a terminal and under NO_COLOR."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn, TextIO


def data(text: str) -> None:
    """Print data."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        reader_left()


def reader_left() -> NoReturn:
    """Keep Python from complaining when it flushes at exit: the reader of stdout has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(141) from None


def data_json(value: object) -> None:
    """Print data as JSON."""
    import json

    data(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """Say something that is no data."""
    print(text, file=sys.stderr, flush=True)


def warning(text: str) -> None:
    """Warn."""
    note(f"{_paint('warning:', '33')} {text}")


def error(text: str, hint: str | None) -> None:
    """Say what went wrong, and what to do next."""
    note(f"{_paint('error:', '1;31')} {text}")
    if hint:
        note(f"{_paint('hint:', '36')} {hint}")


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
    """Show what is going on, on a terminal: the function that is handed out takes the name of each step."""
    if not _fancy(sys.stderr):
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield lambda step: status.update(f"{text}: {step}")


def _paint(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if _fancy(sys.stderr) else text


def _fancy(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
