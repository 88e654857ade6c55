"""Print reports: as JSON, or as text that fits 24 rows, or all of it with `-v`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from extractor.cli import options, output

ROWS = 24
_LEAST = 3  # a title, a line, and how many more there are


@dataclass(frozen=True)
class Section:
    """A list of a report.

    Attributes:
        lines: Its lines, what matters most first; they may be indented.
        title: What stands above them.
        rest: It is shown with `-v` alone.
        whole: All of it is shown, however long it is.
    """

    lines: Sequence[str]
    title: str = ""
    rest: bool = False
    whole: bool = False

    def shown(self, rows: int | None = None) -> list[str]:
        """Return the section's lines, cut to `rows` if given."""
        whole = [*([self.title] if self.title else []), *self.lines]
        if rows is None or len(whole) <= rows:
            return whole
        return [*whole[: rows - 1], f"  and {len(whole) - rows + 1:,} more (-v shows all)"]


def show(answer: Answer, *, verbose: bool, aside: bool = False) -> None:
    """Print a report as text.

    Args:
        verbose: Print everything; otherwise a screen of it.
        aside: Print to stderr, beside the command's result.
    """
    first, last = list(answer.head), [*answer.tail, *(() if verbose else answer.more)]
    filled = [section for section in answer.sections if section.lines and (verbose or not section.rest)]
    rows: dict[int, int | None] = dict.fromkeys(map(id, filled))
    if not verbose:
        room = ROWS - 2 - len(first) - len(last)  # for the prompt and a hint
        room -= sum(len(section.shown()) for section in filled if section.whole)
        cut = [section for section in filled if not section.whole]
        for left, section in enumerate(sorted(cut, key=lambda section: len(section.lines))):
            rows[id(section)] = share = max(room // (len(cut) - left), _LEAST)
            room -= len(section.shown(share))
    middle = [line for section in filled for line in section.shown(rows[id(section)])]
    if text := "\n".join([*first, *middle, *last]):
        (output.print_note if aside else output.print_data)(text)


@dataclass(frozen=True)
class Answer:
    """What a command reports, as data and as text.

    Attributes:
        data: What `--json` prints.
        head, tail: The verdict and the end, printed whole.
        sections: What is shortened where there is much, what matters most first; empty ones are left out.
        more: What ends the text without `-v`.
        warnings, notes: What stands before it, and what else there is to do.
        error: What fails, and the hint; also with `--json`. The exit code is then 1.
        whole: Show all of it, as with `-v`.
        code: The exit code.
        aside: A report that goes with this one.
    """

    data: object
    head: Sequence[str] = ()
    sections: Sequence[Section] = ()
    tail: Sequence[str] = ()
    more: Sequence[str] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    error: tuple[str, str] | None = None
    whole: bool = False
    code: int = 0
    aside: Answer | None = None


def answers(command: Callable[..., Answer]) -> Callable[..., int]:
    """Give a command `--verbose` and `--json`, and print what it returns."""
    own = inspect.signature(command).parameters
    added = {"verbose": options.Verbose, "json": options.Json}
    kind = inspect.Parameter.KEYWORD_ONLY

    def answering(*, verbose: bool, json: bool, **given: Any) -> int:
        said = {"verbose": verbose, "json": json}
        answer = command(**given, **{name: value for name, value in said.items() if name in own})
        verbose = verbose or answer.whole
        for each in filter(None, (None if json else answer.aside, answer)):
            for text in each.warnings:
                output.print_warning(text)
            if json:
                output.print_json(each.data)
                break
            show(each, verbose=verbose, aside=each is not answer)
            for text in each.notes:
                output.print_note(text)
        if answer.error is not None:
            output.print_error(*answer.error)
        return answer.code or int(answer.error is not None)

    shown = [item for name, item in own.items() if name not in added]
    shown += [inspect.Parameter(name, kind, default=False, annotation=of) for name, of in added.items()]
    return options.declare(command, answering, shown)
