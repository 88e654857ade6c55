"""The verdicts of an upgrade: what was emitted, what the owner made of it, and what is emitted now, file by file."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from extractor import merge
from extractor.diff import unreadable
from extractor.lock import Lock, LockedFile
from extractor.merge import Labels
from extractor.plan import BESIDE_SUFFIX, Action, Plan, Reason, Verdict
from extractor.tree import File, FileKind, Tree
from extractor.upgrade import parking


@dataclass(frozen=True)
class Found:
    """What lies at a path of the project.

    Attributes:
        data: The bytes; None where they cannot be read as a file's.
        plain: False for a link, a directory and the like, which no upgrade replaces.
    """

    data: bytes | None
    plain: bool = True


@dataclass(frozen=True)
class Sides:
    """All that an upgrade is decided from.

    Attributes:
        lock: The project's lock.
        base: What was emitted, by path, for all but hooks.
        new: What is emitted now.
        disk: What lies at the paths of both; nothing lies at those left out.
        successors: Path of a file that is emitted no longer -> path of the new one that has taken its part.
        labels: What markers and notes call the sides.
        parked: Paths below `orphaned/` that are taken.
    """

    lock: Lock
    base: Mapping[str, bytes]
    new: Tree
    disk: Mapping[str, Found]
    successors: Mapping[str, str]
    labels: Labels
    parked: AbstractSet[str] = frozenset()


def look(project: Path, paths: AbstractSet[str]) -> dict[str, Found]:
    """Read what lies at these paths.

    Raises:
        CheckFailed: a file cannot be read.
    """
    found = {}
    for name in sorted(paths):
        path = project / name
        plain = not path.is_symlink()
        try:
            found[name] = Found(path.read_bytes(), plain)
        except (FileNotFoundError, NotADirectoryError):
            if not plain:
                found[name] = Found(None, plain=False)
        except IsADirectoryError:
            found[name] = Found(None, plain=False)
        except OSError as error:
            raise unreadable(name, error) from None
    return found


def plan_upgrade(sides: Sides) -> Plan:
    """Decide on every file of the old and of the new tree; writes nothing."""
    new = {file.path: file for file in sides.new}
    old = {file.path: file for file in sides.lock.files}
    actions: dict[str, Action] = {}
    # Edits that move go first: they decide what is written where they arrive.
    for path in sorted(set(old) - set(new)):
        for action in _gone(old[path], sides, new, actions):
            actions[action.path] = action
    for path, file in sorted(new.items()):
        if path not in actions:
            actions[path] = _stays(file, old.get(path), sides)
    return Plan(tuple(actions[path] for path in sorted(actions)))


def _gone(entry: LockedFile, sides: Sides, new: Mapping[str, File], decided: Mapping[str, Action]) -> list[Action]:
    """A file that is emitted no longer."""
    path, kind, found = entry.path, entry.kind, sides.disk.get(entry.path)
    if found is None:
        return [Action(path, Verdict.KEEP, kind, Reason.REMOVED)]
    if kind is FileKind.HOOK or not found.plain or found.data is None:
        return [Action(path, Verdict.KEEP, kind, Reason.OWNED, note="no longer part of the project: yours to remove")]
    base, ours = sides.base[path], found.data
    if ours == base:
        return [Action(path, Verdict.DELETE, kind, Reason.GONE)]
    successor = new.get(sides.successors.get(path, ""))
    if successor is not None and successor.path not in decided and _untouched(successor, sides):
        merged = _merged(base, ours, successor.data, sides.labels)
        if merged is not None and not merged.conflicts:
            return [
                Action(path, Verdict.DELETE, kind, Reason.CARRIED, note=f"your edits are in {successor.path}"),
                Action(
                    successor.path, Verdict.MERGE, successor.kind, Reason.CARRIED, merged.data, f"your edits of {path}"
                ),
            ]
    parked, files = parking.park(entry, base, ours, sides.labels, successor, {*sides.parked, *_parked(decided)})
    return [Action(path, Verdict.ORPHAN, kind, Reason.GONE, note=f"your version is {parked}", beside=files)]


def _parked(decided: Mapping[str, Action]) -> set[str]:
    return {path for action in decided.values() for path, _ in action.beside}


def _untouched(file: File, sides: Sides) -> bool:
    """True where nothing of the owner's lies at the path of a new file."""
    if file.kind is FileKind.HOOK:
        return False
    found = sides.disk.get(file.path)
    if found is None:
        # A file that its owner removed stays removed.
        return file.path not in sides.base
    return found.plain and found.data in (file.data, sides.base.get(file.path, file.data))


def _stays(file: File, entry: LockedFile | None, sides: Sides) -> Action:
    """A file that is emitted now."""
    path, kind, found = file.path, file.kind, sides.disk.get(file.path)
    if kind is FileKind.HOOK:
        return _hook(file, entry, found)
    base = sides.base.get(path)
    if found is None:
        if base is None:
            return Action(path, Verdict.ADD, kind, Reason.NEW, file.data)
        note = "" if base == file.data else f"it has changed in {sides.labels.theirs}"
        return Action(path, Verdict.KEEP, kind, Reason.REMOVED, note=note)
    ours = found.data
    if ours == file.data:
        return Action(path, Verdict.KEEP, kind, Reason.UNCHANGED)
    if base == file.data:
        return Action(path, Verdict.KEEP, kind, Reason.EDITED)
    if base is not None and ours is not None and found.plain:
        if ours == base:
            return Action(path, Verdict.UPDATE, kind, Reason.CHANGED, file.data)
        merged = _merged(base, ours, file.data, sides.labels)
        if merged is not None:
            if not merged.conflicts:
                return Action(path, Verdict.MERGE, kind, Reason.BOTH, merged.data)
            places = "1 place" if merged.conflicts == 1 else f"{merged.conflicts} places"
            return Action(path, Verdict.CONFLICT, kind, Reason.BOTH, merged.data, f"{places} to resolve")
    beside = f"{path}{BESIDE_SUFFIX}"
    return Action(
        path, Verdict.CONFLICT, kind, Reason.IN_THE_WAY, note=f"the new one is {beside}", beside=((beside, file.data),)
    )


def _hook(file: File, entry: LockedFile | None, found: Found | None) -> Action:
    if found is not None:
        changed = entry is not None and entry.kind is FileKind.HOOK and entry.sha256 != file.sha256
        note = "its example has changed; yours stays" if changed else ""
        return Action(file.path, Verdict.KEEP, file.kind, Reason.OWNED, note=note)
    if entry is not None:
        return Action(file.path, Verdict.KEEP, file.kind, Reason.REMOVED)
    return Action(file.path, Verdict.ADD, file.kind, Reason.NEW, file.data)


def _merged(base: bytes, ours: bytes, theirs: bytes, labels: Labels) -> merge.Merged | None:
    """None where one of them is no text."""
    return merge.three_way(base, ours, theirs, labels) if merge.mergeable(base, ours, theirs) else None
