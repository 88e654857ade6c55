"""The types of a generated project: files, kinds, bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256

_MARK = b"vextract:"
_MARKED_IN = 400


class FileKind(str, Enum):
    """Says who writes a file: upstream, our template or the owner."""

    VENDORED = "vendored"
    TEMPLATE = "template"
    HOOK = "hook"


@dataclass(frozen=True)
class File:
    """One file of a generated project.

    Attributes:
        path: POSIX path relative to the project's root.
        kind: Who writes it, and so what an upgrade may do to it.
        data: The exact bytes emitted.
        upstream_path: For vendored files, the path in verl's source tree ("verl/protocol.py").
        upstream_sha256: For vendored files, the hex digest of that upstream file.
        changes: For vendored files, what was done to that upstream file, one sentence each.
    """

    path: str
    kind: FileKind
    data: bytes
    upstream_path: str | None = None
    upstream_sha256: str | None = None
    changes: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """Return the hex digest of the emitted bytes."""
        return sha256(self.data).hexdigest()


@dataclass(frozen=True)
class Tree:
    """All files of a generated project, sorted by path."""

    files: tuple[File, ...]

    def __post_init__(self) -> None:
        paths = [file.path for file in self.files]
        if paths != sorted(set(paths)):
            raise ValueError("the files of a tree must be sorted by path and unique")

    def __iter__(self) -> Iterator[File]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    @classmethod
    def of(cls, files: list[File]) -> Tree:
        """Build a tree from files in any order."""
        return cls(tuple(sorted(files, key=lambda file: file.path)))


def is_marked(path: str, data: bytes) -> bool:
    """Return True for files that vextract wrote, and empty ones."""
    return not data.strip() or _MARK in data[:_MARKED_IN] or path == "LICENSE.verl"
