"""Park files that have no place in the new tree, each with a note."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from extractor.pipeline.merge import Labels
from extractor.project.lock import LockedFile
from extractor.project.side_files import NOTE_SUFFIX, ORPHANED
from extractor.usecases import diff
from extractor.usecases.upgrade.settings import Lost
from extractor.values.tree import File

Parked = tuple[str, tuple[tuple[str, bytes], ...]]


def park(
    entry: LockedFile,
    base: bytes,
    ours: bytes,
    labels: Labels,
    successors: Sequence[File],
    users: Sequence[str],
    taken: AbstractSet[str],
) -> Parked:
    """Return where an edited file goes, with its bytes and a note.

    Args:
        entry: The file, as the lock has it.
        base: What was emitted.
        ours: What its owner made of it.
        labels: What the releases are called.
        successors: The new files that have taken its part, as far as they are known.
        users: The project's own files that used it.
        taken: Paths that are not free.
    """
    lines = [
        f"{entry.path}, as you had edited it: it was part of {labels.base} and is not of {labels.theirs}.",
        f"Its code came from upstream's {entry.upstream_path}." if entry.upstream_path else "It came from a template.",
        *_place(successors, users),
        "Move by hand what you still need, then remove this file and the other.",
    ]
    return _parked(entry, base, ours, lines, taken)


def park_settings(
    entry: LockedFile, base: bytes, ours: bytes, labels: Labels, lost: Sequence[Lost], taken: AbstractSet[str]
) -> Parked:
    """Return where the lost settings of a config file go, with a note.

    Args:
        entry, base, ours, labels, taken: As for `park`.
        lost: The settings.
    """
    lines = [
        f"{entry.path}, as you had edited it on {labels.base}. Settings of yours have no place in {labels.theirs}:",
        *(f"  {item.key}: {item.value}" for item in lost),
        "All else that you had set is carried over. Remove this file and the other when you need them no longer.",
    ]
    return _parked(entry, base, ours, lines, taken)


def _place(successors: Sequence[File], users: Sequence[str]) -> list[str]:
    using = [f"It was used by {', '.join(users)}: see what that uses now."] if users else []
    if not successors:
        return ["No file is known to have taken its part.", *using]
    first, *others = (file.path for file in successors)
    lines = [f"{first} has taken its part, and your edits do not fit in by themselves."]
    if others:
        lines.append(f"Other parts of it are in {', '.join(others)}.")
    return lines + using


def _parked(entry: LockedFile, base: bytes, ours: bytes, lines: Sequence[str], taken: AbstractSet[str]) -> Parked:
    path = f"{ORPHANED}/{entry.path}"
    number = 1
    while path in taken or path + NOTE_SUFFIX in taken:
        number += 1
        path = f"{ORPHANED}/{entry.path}.{number}"
    text = "\n".join((*lines, "", "Your edits were:", "", ""))
    return path, ((path, ours), (path + NOTE_SUFFIX, text.encode() + diff.unified(entry.path, base, ours)))
