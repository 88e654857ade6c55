"""The types of a journal."""

from dataclasses import dataclass, field
from enum import Enum


class Phase(str, Enum):
    """Says how far an upgrade has come."""

    HALF_WAY = "half way"
    CONFLICTS = "conflicts"
    DONE = "done"


@dataclass(frozen=True)
class Change:
    """Holds what becomes of one file.

    Attributes:
        path: POSIX path relative to the project.
        old, new: The bytes before and after; None: no file.
        mode: Permissions of the old file, which the new one gets as well; None: those of any new file.
    """

    path: str
    old: bytes | None = field(repr=False)
    new: bytes | None = field(repr=False)
    mode: int | None = None


@dataclass(frozen=True)
class Conflict:
    """A file that its owner has to resolve.

    Attributes:
        path: The file.
        beside: Where the new version lies, where it is not in the file itself, between markers.
    """

    path: str
    beside: str | None = None


@dataclass(frozen=True)
class Journal:
    """One upgrade.

    Attributes:
        title: What it is called: "verl 0.5.0 -> verl 0.6.1".
        changes: Sorted by path; the base and the lock come last.
        made: Directories that it makes, parents first.
        emptied: Directories that it leaves empty and removes, with their permissions, parents first.
        conflicts: What is left to its owner.
    """

    title: str
    changes: tuple[Change, ...]
    made: tuple[str, ...]
    emptied: tuple[tuple[str, int], ...]
    conflicts: tuple[Conflict, ...]

    @property
    def lock(self) -> Change:
        """Return the change of the lock."""
        return self.changes[-1]

    def change(self, path: str) -> Change | None:
        """Return the change of a file."""
        return next((change for change in self.changes if change.path == path), None)
