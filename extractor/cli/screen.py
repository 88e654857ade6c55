"""Print reports: the verdict and what fits a screen first, the rest with `-v`.

On a terminal no line is wider than it. Off a terminal lines are as long as they are, and a screen has 24 rows.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from extractor.cli import output

ROWS = 24
_MORE = "-v shows all"


@dataclass(frozen=True)
class Section:
    """A list of a report.

    Attributes:
        lines: Its lines, what matters most first; they may be indented.
        title: What stands above them.
        prefix: What stands before every line that is the list's own: the indentation of "and 12 more".
    """

    lines: Sequence[str]
    title: str = ""
    prefix: str = "  "

    @property
    def needs(self) -> int:
        """Count the rows that it takes as a whole."""
        return len(self.lines) + bool(self.title)


def show(
    head: Iterable[str],
    sections: Iterable[Section] = (),
    tail: Iterable[str] = (),
    *,
    verbose: bool,
    below: int = 0,
    aside: bool = False,
) -> None:
    """Print a report.

    Args:
        head: The verdict, printed whole.
        sections: What is shortened where a screen is too small, what matters most first; empty ones are left out.
        tail: The end, printed whole.
        verbose: Print everything.
        below: Rows to leave for what is printed afterwards.
        aside: Print to stderr: it goes with a result, and is none.
    """
    stream = sys.stderr if aside else sys.stdout
    width = output.width_of(stream)
    first, last = wrapped(head, width), wrapped(tail, width)
    filled = [section for section in sections if section.lines]
    if verbose:
        middle = [line for section in filled for line in wrapped(_whole(section), width)]
    else:
        # One row is the prompt's.
        room = _rows(stream) - len(first) - len(last) - below - 1
        middle = [cut(line, width) for line in _fitted(filled, room)]
    (output.note if aside else output.data)("\n".join([*first, *middle, *last]))


def cut(line: str, width: int | None) -> str:
    """Return a line that fits."""
    return line if width is None or len(line) <= width else f"{line[: width - 1].rstrip()}…"


def wrapped(lines: Iterable[str], width: int | None) -> list[str]:
    """Wrap long lines, indented below their own last column."""
    if width is None:
        return list(lines)
    return [piece for line in lines for piece in _wrap(line, width)]


def _wrap(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    # Columns are two or more blanks apart: what goes on stands below the last of them, where that leaves some room.
    start = len(line) - len(line.lstrip())
    columns = [
        index + 2 for index in range(start, len(line) - 2) if line[index : index + 2] == "  " and line[index + 2] != " "
    ]
    hang = max((column for column in columns if column <= width // 2), default=start + 2)
    return textwrap.wrap(line, width, subsequent_indent=" " * hang, drop_whitespace=True, break_on_hyphens=False)


def height(lines: Iterable[str]) -> int:
    """Count the rows that lines take on a terminal that wraps them."""
    columns = shutil.get_terminal_size().columns
    return sum(max(1, -(-len(line) // columns)) for line in lines)


def _rows(stream: TextIO) -> int:
    return shutil.get_terminal_size().lines if stream.isatty() else ROWS


def _whole(section: Section) -> list[str]:
    return [*([section.title] if section.title else []), *section.lines]


def _fitted(sections: Sequence[Section], room: int) -> list[str]:
    """Fit sections into rows, each with its fair share."""
    if sum(section.needs for section in sections) <= room:
        return [line for section in sections for line in _whole(section)]
    # The least that says something: a title, a line, and how many more there are.
    shown = list(sections)
    while len(shown) > 1 and sum(min(section.needs, 2 + bool(section.title)) for section in shown) > room - 1:
        shown.pop()
    left_out = sections[len(shown) :]
    room -= bool(left_out)
    rows = [0] * len(shown)
    waiting = list(range(len(shown)))
    while waiting:
        share = max(room // len(waiting), 1)
        small = [index for index in waiting if shown[index].needs <= share]
        for index in small or waiting:
            rows[index] = min(shown[index].needs, share)
            room -= rows[index]
        waiting = [index for index in waiting if index not in small] if small else []
    lines = [line for section, count in zip(shown, rows, strict=True) for line in _shortened(section, count)]
    if left_out:
        names = ", ".join(section.title.rstrip(":") or "more" for section in left_out)
        lines.append(f"not shown: {names} ({_MORE})")
    return lines


def _shortened(section: Section, rows: int) -> list[str]:
    whole = _whole(section)
    if len(whole) <= rows:
        return whole
    kept = whole[: max(rows - 1, 1 + bool(section.title))]
    more = len(whole) - len(kept)
    return [*kept, f"{section.prefix}and {more:,} more ({_MORE})"]
