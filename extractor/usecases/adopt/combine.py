"""Merging a fork's version of a symbol with the emitted one."""

from __future__ import annotations

from difflib import SequenceMatcher

from extractor.pipeline import merge
from extractor.pipeline.merge import Labels

_LABELS = Labels("fork", "upstream", "emitted")


def combine(base: str, ours: str, theirs: str) -> str | None:
    """Return both sides' changes to a text; None where they contradict.

    Git takes changes of neighbouring lines for a conflict. What vextract changes in a symbol are single lines (a
    redirected import, a fix), so that an edit right beside one is merged nevertheless.
    """
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    merged = merge.three_way(base.encode(), ours.encode(), theirs.encode(), _LABELS)
    return _touching(base, ours, theirs) if merged.conflicts else merged.data.decode()


def _touching(base: str, ours: str, theirs: str) -> str | None:
    lines = base.splitlines(keepends=True)
    changes = sorted({*_changes(lines, ours), *_changes(lines, theirs)})
    text = list[str]()
    done = 0
    last: tuple[int, int] | None = None
    for start, end, new in changes:
        if last is not None and (start < last[1] or (start, end) == last):
            return None
        text += lines[done:start]
        text += new
        done, last = end, (start, end)
    return "".join(text + lines[done:])


def _changes(base: list[str], text: str) -> list[tuple[int, int, tuple[str, ...]]]:
    lines = text.splitlines(keepends=True)
    codes = SequenceMatcher(None, base, lines, autojunk=False).get_opcodes()
    return [(i1, i2, tuple(lines[j1:j2])) for tag, i1, i2, j1, j2 in codes if tag != "equal"]
