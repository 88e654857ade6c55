"""Merging a fork's version of a symbol with the emitted one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from extractor.pipeline import merge
from extractor.pipeline.merge import Labels
from extractor.pipeline.merge.statements import merge_statements, parses

_Change = tuple[int, int, Sequence[str]]
_LINE, _WORD = re.compile(r"[^\n]*\n|[^\n]+"), re.compile(r"\w+|\s+|.")
_ARGUMENT = re.compile(r"[\s,]*\w+\s*=[^=].*")
_LABELS = Labels("fork", "upstream", "emitted")


def combine(base: str, ours: str, theirs: str, *, finely: bool = False) -> str | None:
    """Return both sides' changes to a text; None where they contradict, or give what is not Python.

    Git takes changes of neighbouring lines for a conflict. What vextract changes in a symbol are single lines (a
    redirected import, a fix), so that an edit right beside one is merged nevertheless. Of sides that are laid out in
    different ways, as upstream's are before and after it was formatted, statements are merged instead of lines.

    Args:
        base, ours, theirs: The texts.
        finely: Merge changes of one line, too, where they are of different words in it.
    """
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    pieces = (_LINE, _WORD) if finely else (_LINE,)
    for text in (
        _by_line(base, ours, theirs),
        _touching(base, ours, theirs, pieces),
        _by_statement(base, ours, theirs),
    ):
        if text is not None and parses(text):
            return text
    return None


def _by_line(base: str, ours: str, theirs: str) -> str | None:
    merged = merge.merge_lines(base.encode(), ours.encode(), theirs.encode(), _LABELS)
    return None if merged.conflicts else merged.data.decode()


def _touching(base: str, ours: str, theirs: str, pieces: Sequence[re.Pattern[str]]) -> str | None:
    """Merge changes that lie side by side; of those that overlap, the same way the smaller pieces of what they change.

    Both sides may give a call another keyword argument.
    """
    was = pieces[0].findall(base)
    sides = [_changes(was, pieces[0].findall(text)) for text in (ours, theirs)]
    text, done = [], 0
    for start, end in _regions(sides):
        text += was[done:start]
        before = "".join(was[start:end])
        mine, other = ("".join(_changed(was, side, start, end)) for side in sides)
        if before in (mine, other) or mine == other:
            text.append(other if mine == before else mine)
        else:
            merged = _touching(before, mine, other, pieces[1:]) if len(pieces) > 1 else None
            if pieces[0] is _WORD and not before and all(map(_ARGUMENT.fullmatch, (mine, other))):
                merged = mine + other
            if merged is None:
                return None
            text.append(merged)
        done = end
    return "".join(text + was[done:])


def _changes(was: Sequence[str], now: Sequence[str]) -> list[_Change]:
    """Return what changed: where it begins and ends, and what stands there now."""
    codes = SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
    return [(i1, i2, now[j1:j2]) for tag, i1, i2, j1, j2 in codes if tag != "equal"]


def _regions(sides: Sequence[Sequence[_Change]]) -> list[tuple[int, int]]:
    """Return where anything changed, with changes that overlap, or that insert at the same place, in one."""
    found = list[tuple[int, int]]()
    for start, end in sorted({(start, end) for side in sides for start, end, _ in side}):
        if found and (start < found[-1][1] or (start, end) == found[-1]):
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _changed(was: Sequence[str], side: Sequence[_Change], start: int, end: int) -> list[str]:
    """Return what a side has in a region that no change of it crosses the ends of."""
    text, done = list[str](), start
    for first, last, now in side:
        inside = start <= first and last <= end and not (first == last and first in (start, end))
        if inside or (first, last) == (start, end):
            text += [*was[done:first], *now]
            done = last
    return text + list(was[done:end])


def _by_statement(base: str, ours: str, theirs: str) -> str | None:
    """Merge logical lines, whatever their layout and comments; what both sides have is laid out as `theirs` is."""
    merged = merge_statements(base, ours, theirs, _LABELS, with_comments=False)
    return None if merged is None or merged.conflicts else merged.data.decode()
