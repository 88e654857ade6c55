"""Decide what happens to each project file before writing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from pathlib import Path, PurePosixPath

from extractor.project.lock import Lock
from extractor.values import readers
from extractor.values.tree import FileKind, Tree


class Verdict(str, Enum):
    """Says what happens to a file."""

    ADD = "add"
    UPDATE = "update"
    MERGE = "merge"
    CONFLICT = "conflict"
    DELETE = "delete"
    KEEP = "keep"
    ORPHAN = "orphan"


class Reason(str, Enum):
    """Says why a file has its verdict, in words for users."""

    NEW = "new"
    MISSING = "missing"
    UNCHANGED = "as emitted"
    EDITED = "edited"
    REMOVED = "removed by you"
    OWNED = "yours"
    CHANGED = "changed"
    BOTH = "edited by you, and changed"
    CARRIED = "your edits moved along"
    MOVED = "moved"
    RENAMED = "settings under new names"
    ASKED = "changed by this command"
    GONE = "no longer part of the project"
    IN_THE_WAY = "a file of yours is in the way"


@dataclass(frozen=True)
class Action:
    """The verdict on one file.

    Attributes:
        path: POSIX path relative to the project.
        verdict: What happens to it.
        kind: Who writes it.
        reason: Why.
        data: The bytes to write, for a verdict that writes.
        note: What a user should know besides; empty where nothing.
        side_files: Other files that are written along with it: what is parked, or does not fit in.
    """

    path: str
    verdict: Verdict
    kind: FileKind
    reason: Reason
    data: bytes | None = field(default=None, repr=False)
    note: str = ""
    side_files: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Plan:
    """The verdicts on all files, sorted by path."""

    actions: tuple[Action, ...]

    def __post_init__(self) -> None:
        paths = [action.path for action in self.actions]
        if paths != sorted(set(paths)):
            raise ValueError("the actions of a plan must be sorted by path and unique")

    def paths(self, verdict: Verdict, reason: Reason | None = None) -> tuple[str, ...]:
        """Return the paths with a verdict and, if given, a reason."""
        return tuple(
            action.path for action in self.actions if action.verdict is verdict and reason in (None, action.reason)
        )

    def writes(self) -> dict[str, bytes]:
        """Return path -> bytes of every file that is written."""
        found = {action.path: action.data for action in self.actions if action.data is not None}
        for action in self.actions:
            found.update(action.side_files)
        return dict(sorted(found.items()))

    def removals(self) -> tuple[str, ...]:
        """Return paths to remove, including orphans kept elsewhere."""
        return tuple(action.path for action in self.actions if action.verdict in (Verdict.DELETE, Verdict.ORPHAN))


def plan_new(tree: Tree) -> Plan:
    """Plan a new project: every file is added."""
    return Plan(tuple(Action(file.path, Verdict.ADD, file.kind, Reason.NEW, file.data) for file in tree))


def read_digests_on_disk(lock: Lock, project: Path) -> dict[str, str]:
    """Return the digests of the locked files that exist on disk.

    A directory, or a link that leads nowhere, in a file's place counts as an edit: it has a digest that no file has.
    """
    found: dict[str, str] = {}
    for file in lock.files:
        path = project / file.path
        try:
            found[file.path] = sha256(readers.read_bytes(path)).hexdigest()
        except (FileNotFoundError, NotADirectoryError):
            if path.is_symlink():
                found[file.path] = "link"
        except IsADirectoryError:
            found[file.path] = "directory"
        except OSError:
            found[file.path] = "link" if path.is_symlink() else "unreadable"
    return found


def plan_sync(lock: Lock, emitted: Mapping[str, bytes], on_disk: Mapping[str, str], *, removed: bool = False) -> Plan:
    """Plan to restore missing vendored files and their packages.

    Args:
        lock: The project's lock.
        emitted: The emitted bytes by path, verified against the lock; at least of the files that are to be added.
        on_disk: Digests by path, as `read_digests_on_disk` gives them.
        removed: Restore templates that are missing too.
    """
    actions = []
    vendored = [file.path for file in lock.files if file.kind is FileKind.VENDORED]
    packages = {f"{folder}/__init__.py" for path in vendored for folder in _find_vendored_folders(path)}
    for file in lock.files:
        present = on_disk.get(file.path)
        if file.kind is FileKind.HOOK:
            action = Action(file.path, Verdict.KEEP, file.kind, Reason.OWNED)
        elif present == file.sha256:
            action = Action(file.path, Verdict.KEEP, file.kind, Reason.UNCHANGED)
        elif present is not None:
            action = Action(file.path, Verdict.KEEP, file.kind, Reason.EDITED)
        elif removed or file.kind is FileKind.VENDORED or file.path in packages:
            action = Action(file.path, Verdict.ADD, file.kind, Reason.MISSING, emitted[file.path])
        else:
            action = Action(file.path, Verdict.KEEP, file.kind, Reason.REMOVED)
        actions.append(action)
    return Plan(tuple(actions))


def _find_vendored_folders(path: str) -> list[str]:
    """Return the folders that hold nothing but vendored files."""
    folders = [str(parent) for parent in PurePosixPath(path).parents]
    return [folder for folder in folders if "vendored" in folder.split("/")]
