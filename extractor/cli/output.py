"""Print data to stdout and everything else to stderr."""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

from extractor.values.errors import UsageError

# Characters that a terminal obeys, or that change the order in which it shows others.
_OBEYED = re.compile("[^\\n\\t -~\u00a0-\U0010ffff]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def make_plain(text: str) -> str:
    r"""Make control characters visible, as in a file named `\x1b[2J`."""
    return _OBEYED.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)


def print_data(text: str, *, styled: bool = False) -> None:
    """Print data.

    Args:
        styled: whether it has our own colours in it, and nothing else that a terminal obeys.
    """
    try:
        print(text if styled else make_plain(text), flush=True)
    except BrokenPipeError:
        silence_flush()


def silence_flush() -> NoReturn:
    """Exit quietly with 141 because stdout's reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(141) from None


def print_json(value: object) -> None:
    """Print data as JSON; a dataclass by the fields that its repr has, others as text."""
    import json

    print_data(json.dumps(value, indent=2, ensure_ascii=False, default=_take_apart))


def _take_apart(value: Any) -> object:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    shown = (item.name for item in fields(value) if item.repr) if is_dataclass(value) else None
    return {name: getattr(value, name) for name in shown} if shown is not None else str(value)


def pick(item: object, names: str, **more: object) -> dict[str, Any]:
    """Return attributes of an object for JSON: "path why=reason", and more."""
    pairs = (name.partition("=") for name in names.split())
    return {**{name: getattr(item, source or name) for name, _, source in pairs}, **more}


def write_file(path: Path, text: str) -> None:
    """Write a file that the user has named.

    Raises:
        UsageError: it cannot be written.
    """
    from extractor.project import disk

    try:
        write = Path.write_bytes if path.exists() and not path.is_file() else disk.replace  # /dev/stdout stays
        write(path, text.encode(errors="backslashreplace"))
    except OSError as error:
        problem = f"{path} cannot be written: {error.strerror}"
        raise UsageError(problem, hint="name a file in another place, in a directory that exists") from None


def print_note(text: str) -> None:
    """Print a note to stderr."""
    print(make_plain(text), file=sys.stderr, flush=True)


def print_warning(text: str) -> None:
    """Print a warning to stderr."""
    _say("warning:", "33", text)


def print_error(text: str, hint: str | None) -> None:
    """Print an error and its hint to stderr."""
    _say("error:", "1;31", text)
    if hint:
        _say("hint:", "36", hint)


def _say(word: str, code: str, text: str) -> None:
    word = f"\x1b[{code}m{word}\x1b[0m" if is_fancy(sys.stderr) else word
    print(f"{word} {make_plain(text)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def show_progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show progress on a terminal; yield a function naming the step."""
    if not is_fancy(sys.stderr):
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield lambda step: status.update(f"{text}: {make_plain(step)}")


def is_fancy(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that takes colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
