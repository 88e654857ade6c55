"""Files that have no place in the new tree: they are parked under `orphaned/`, each with a note."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from extractor import diff
from extractor.lock import LockedFile
from extractor.merge import Labels
from extractor.plan import NOTE_SUFFIX, ORPHANED
from extractor.tree import File


def park(
    entry: LockedFile, base: bytes, ours: bytes, labels: Labels, successor: File | None, taken: AbstractSet[str]
) -> tuple[str, tuple[tuple[str, bytes], ...]]:
    """Where an edited file goes, and what is written there: its bytes, and a note.

    Args:
        entry: The file, as the lock has it.
        base: What was emitted.
        ours: What its owner made of it.
        labels: What the releases are called.
        successor: The new file that has taken its part, where one is known.
        taken: Paths that are not free.
    """
    path = f"{ORPHANED}/{entry.path}"
    number = 1
    while path in taken or path + NOTE_SUFFIX in taken:
        number += 1
        path = f"{ORPHANED}/{entry.path}.{number}"
    lines = [
        f"{entry.path}, as you had edited it: it was part of {labels.base} and is not of {labels.theirs}.",
        f"Its code came from upstream's {entry.upstream_path}." if entry.upstream_path else "It came from a template.",
        f"{successor.path} has taken its part, and your edits do not fit in by themselves."
        if successor
        else "No file is known to have taken its part.",
        "Move by hand what you still need, then remove this file and the other.",
        "",
        "Your edits were:",
        "",
        "",
    ]
    note = "\n".join(lines).encode() + diff.unified(entry.path, base, ours)
    return path, ((path, ours), (path + NOTE_SUFFIX, note))
