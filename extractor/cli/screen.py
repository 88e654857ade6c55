"""Print reports: what fits 24 rows, or everything with `-v`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from extractor.cli import output

ROWS = 24
_LEAST = 3  # a title, a line, and how many more there are


@dataclass(frozen=True)
class Section:
    """A list of a report.

    Attributes:
        lines: Its lines, what matters most first; they may be indented.
        title: What stands above them.
        prefix: The indentation of "and 12 more".
    """

    lines: Sequence[str]
    title: str = ""
    prefix: str = "  "

    def shown(self, rows: int | None = None) -> list[str]:
        """Return the section's lines, cut to `rows` if given."""
        whole = [*([self.title] if self.title else []), *self.lines]
        if rows is None or len(whole) <= rows:
            return whole
        return [*whole[: rows - 1], f"{self.prefix}and {len(whole) - rows + 1:,} more (-v shows all)"]


def show(
    head: Iterable[str],
    sections: Iterable[Section] = (),
    tail: Iterable[str] = (),
    *,
    verbose: bool,
    aside: bool = False,
) -> None:
    """Print a report.

    Args:
        head: The verdict, printed whole.
        sections: What is shortened where there is much, what matters most first; empty ones are left out.
        tail: The end, printed whole.
        verbose: Print everything.
        aside: Print to stderr: it goes with a result, and is none.
    """
    first, last = list(head), list(tail)
    filled = [section for section in sections if section.lines]
    rows: dict[int, int | None] = dict.fromkeys(map(id, filled))
    if not verbose:
        room = ROWS - 2 - len(first) - len(last)  # for the prompt and a hint
        for left, section in enumerate(sorted(filled, key=lambda section: len(section.lines))):
            rows[id(section)] = share = max(room // (len(filled) - left), _LEAST)
            room -= len(section.shown(share))
    middle = [line for section in filled for line in section.shown(rows[id(section)])]
    (output.note if aside else output.data)("\n".join([*first, *middle, *last]))
