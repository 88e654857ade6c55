"""Define the results of adopting."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True)
class Copy:
    """A copy of verl in somebody's repository.

    Attributes:
        root: The directory that stands for upstream's verl/.
        top: The directory that was searched.
        others: Other directories in it that hold a copy, too.
        prefixes: Dotted names under which the copy imports itself, the longest first; "verl" itself is not listed.
        files: Bytes by upstream path ("verl/protocol.py") of what lies at the place of one of upstream's files.
        own: Bytes of the other Python files of the copy, by the path that they would have below verl/.
        neighbours: Top-level modules of the repository besides the copy.
        says: The release that the copy's version file names, where it has one.
    """

    root: Path
    top: Path
    others: tuple[Path, ...]
    prefixes: tuple[str, ...]
    files: Mapping[str, bytes] = field(repr=False)
    own: Mapping[str, bytes] = field(repr=False)
    neighbours: frozenset[str]
    says: str | None


@dataclass(frozen=True)
class Score:
    """Says how near a copy is to a release."""

    release: str
    similarity: float
    identical: int
    edited: int
    missing: int


class Outcome(str, Enum):
    """What became of an edit; UPSTREAM: another upstream version has it."""

    CARRIED = "carried"
    ORPHANED = "orphaned"
    UPSTREAM = "upstream"


@dataclass(frozen=True)
class ForkEdit:
    """A fork's change to one symbol, import or file.

    Attributes:
        upstream_path: The file.
        symbol: The symbol, as a reader would name it.
        outcome: What became of it.
        where: File of the project that has the edit, or below `orphaned/`; empty where the project has the release's.
        why: For an orphan, why it has no place.
        what: "edited", "added" or "removed".
        is_symbol: False for imports, comments at the top and files that are not Python.
        parts: For a class, the methods that differ, in the fork's order.
        old, new: The text before and after, imports under upstream's names.
    """

    upstream_path: str
    symbol: str
    outcome: Outcome
    where: str
    why: str
    what: str = "added"
    is_symbol: bool = False
    parts: tuple[str, ...] = ()
    old: str = field(default="", repr=False)
    new: str = field(default="", repr=False)


@dataclass(frozen=True)
class ForkFile:
    """A file of the fork's that upstream does not have.

    Attributes:
        path: Below the fork's directory.
        copied: Where it went in the project; None where no code that came along imports it.
        is_upstreams: It is not the fork's own either: upstream had all of it on another day than the release's.
    """

    path: str
    copied: str | None
    is_upstreams: bool


class Share(NamedTuple):
    """Says how many of something were carried over."""

    carried: int
    total: int

    @property
    def percent(self) -> float:
        """Return the share in percent, 100 if nothing was counted."""
        return 100.0 * self.carried / self.total if self.total else 100.0
