"""Read where a project's files and packages come from."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from extractor.pipeline.rewrite import former_changes
from extractor.project.lock import Lock
from extractor.usecases.status import FileStatus, status
from extractor.values import readers
from extractor.values.tree import FileKind

REQUIREMENTS = "requirements.lock"
_COPYRIGHT = re.compile(r"^[ \t#/*;]*((?:Copyright|COPYRIGHT) (?:\([cC]\) |© )?[\dA-Z][^\n]{0,200})$", re.MULTILINE)
_PIECE = 1 << 20


@dataclass(frozen=True)
class ProjectFile:
    """A file of the project.

    Attributes:
        path: POSIX path relative to the project.
        kind: Who writes it; None for one of the owner's that vextract knows nothing about.
        sha1: Digest of the file as it lies there.
        sha256: Another.
        emitted: sha256 of the file as vextract emitted it; None where it did not.
        edited: The owner has changed it since.
        upstream: For a vendored file, its path in verl.
        upstream_sha256: Digest of that file, where it was rewritten.
        changes: What vextract did to it, a sentence each.
        copyright: Its copyright lines, in order.
    """

    path: str
    kind: FileKind | None
    sha1: str
    sha256: str
    emitted: str | None = None
    edited: bool = False
    upstream: str | None = None
    upstream_sha256: str | None = None
    changes: tuple[str, ...] = ()
    copyright: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pin:
    """A package that set-up installs.

    Attributes:
        name: Its name.
        version: Its version.
        marker: Where it is installed at all, as a PEP 508 marker; empty: everywhere.
        sha256: The digests of the files that pip may take.
    """

    name: str
    version: str
    marker: str
    sha256: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """A project.

    Attributes:
        lock: Its lock.
        files: Its files as they lie there, sorted by path.
        missing: What the lock lists and is not there.
        pins: What requirements.lock lists.
    """

    lock: Lock
    files: tuple[ProjectFile, ...]
    missing: tuple[str, ...]
    pins: tuple[Pin, ...]


def gather(project: Path, lock: Lock) -> Facts:
    """Read what is needed."""
    known = [item for item in status(project, lock).files if not (project / item.path).is_symlink()]
    files = [_file(project, item, lock) for item in known if (project / item.path).is_file()]
    there = {file.path for file in files}
    return Facts(
        lock=lock,
        files=tuple(files),
        missing=tuple(file.path for file in lock.files if file.path not in there),
        pins=pins(project / REQUIREMENTS),
    )


def _file(project: Path, item: FileStatus, lock: Lock) -> ProjectFile:
    sha1, sha256 = hashlib.sha1(usedforsecurity=False), hashlib.sha256()
    head = b""
    with (project / item.path).open("rb") as handle:
        while piece := handle.read(_PIECE):
            head = head or piece
            sha1.update(piece)
            sha256.update(piece)
    text = head.decode("utf-8", errors="replace")
    entry = lock.file(item.path)
    return ProjectFile(
        path=item.path,
        kind=item.kind,
        sha1=sha1.hexdigest(),
        sha256=sha256.hexdigest(),
        emitted=entry.sha256 if entry else None,
        edited=entry is not None and entry.sha256 != sha256.hexdigest(),
        upstream=entry.upstream_path if entry else None,
        upstream_sha256=entry.upstream_sha256 if entry else None,
        changes=(entry.changes or former_changes(text)) if entry and entry.kind is FileKind.VENDORED else (),
        copyright=tuple(dict.fromkeys(line.strip() for line in _COPYRIGHT.findall(text))),
    )


def pins(path: Path) -> tuple[Pin, ...]:
    """Read the exact versions of a lock file of pip, with their digests; a line of any other kind is left out."""
    try:
        text = readers.read_text(path).replace("\\\n", " ")
    except OSError:
        return ()
    found = []
    for line in text.splitlines():
        wanted, *digests = re.split(r"\s--hash=sha256:", line)
        try:
            requirement = Requirement(wanted.strip())
        except InvalidRequirement:
            continue
        exact = [item.version for item in requirement.specifier if item.operator in ("==", "===")]
        if exact:
            marker = str(requirement.marker or "")
            found.append(Pin(requirement.name, exact[0], marker, tuple(item.strip() for item in digests)))
    return tuple(found)
