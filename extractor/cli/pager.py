"""Long reports on a terminal: in colour, and through the user's pager."""

from __future__ import annotations

import os
import sys

from extractor.cli import output

_STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"), ("\\", "dim"))


def show_diff(diff: bytes, *, page: bool) -> None:
    """Print a unified diff: escaped on a terminal, byte for byte elsewhere."""
    if not sys.stdout.isatty():
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(diff)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            output.reader_left()
        return
    from rich.console import Console
    from rich.text import Text

    text = Text()
    for line in output.plain(diff.decode("utf-8", errors="replace").replace("\r\n", "\n")).splitlines(keepends=True):
        text.append(line, next((style for start, style in _STYLES if line.startswith(start)), ""))
    console = Console(highlight=False)
    colour = not os.environ.get("NO_COLOR")
    if page:
        # As git does: leave at the end where all fits on one screen, and let colours through.
        os.environ.setdefault("LESS", "FRX")
        with console.pager(styles=colour):
            console.print(text, end="", soft_wrap=True)
    else:
        console.print(text, end="", soft_wrap=True)
