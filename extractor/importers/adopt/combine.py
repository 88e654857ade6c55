"""Merging a fork's version of a symbol with the emitted one."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import pairwise

from extractor.pipeline import merge
from extractor.pipeline.merge import Labels
from extractor.pipeline.merge.statements import merge_statements, parses

_LABELS = Labels("fork", "upstream", "emitted")


def combine(base: str, ours: str, theirs: str) -> str | None:
    """Return both sides' changes to a text; None where they contradict, or give what is not Python.

    Git takes changes of neighbouring lines for a conflict. What vextract changes in a symbol are single lines (a
    redirected import, a fix), so that an edit right beside one is merged nevertheless. Of sides that are laid out in
    different ways, as upstream's are before and after it was formatted, statements are merged instead of lines.
    """
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    ways = (_by_line, _by_change, _by_statement)
    texts = (way(base, ours, theirs) for way in ways)
    return next((text for text in texts if text is not None and parses(text)), None)


def _by_line(base: str, ours: str, theirs: str) -> str | None:
    merged = merge.three_way(base.encode(), ours.encode(), theirs.encode(), _LABELS)
    return None if merged.conflicts else merged.data.decode()


def _by_change(base: str, ours: str, theirs: str) -> str | None:
    """Merge changes that lie side by side; None where any overlap."""
    was = base.split("\n")
    changes = {
        (start, end, tuple(now[first:last]))
        for now in (ours.split("\n"), theirs.split("\n"))
        for tag, start, end, first, last in SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
        if tag != "equal"
    }
    if any(later[0] < earlier[1] or later[:2] == earlier[:2] for earlier, later in pairwise(sorted(changes))):
        return None
    for start, end, lines in sorted(changes, reverse=True):
        was[start:end] = lines
    return "\n".join(was)


def _by_statement(base: str, ours: str, theirs: str) -> str | None:
    """Merge logical lines, whatever their layout and comments; what both sides have is laid out as `theirs` is."""
    merged = merge_statements(base, ours, theirs, _LABELS, with_comments=False)
    return None if merged is None or merged.conflicts else merged.data.decode()
