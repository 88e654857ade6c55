"""Compare a project's files with its lock, by digest."""

import contextlib
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from extractor import __version__
from extractor.pipeline import merge
from extractor.pipeline.plan import read_digests_on_disk
from extractor.project import base, git, journal
from extractor.project.journal import Phase
from extractor.project.lock import NAME, Lock, LockedFile
from extractor.project.side_files import BESIDE_SUFFIX, NOTE_SUFFIX, ORPHANED
from extractor.usecases.owner_code import find_owner_files
from extractor.values import readers, releases
from extractor.values.manifest import OWN_MANIFEST, read_own_manifest
from extractor.values.tree import FileKind


class State(str, Enum):
    """Says what has become of a file."""

    CLEAN = "clean"
    EDITED = "edited"
    MISSING = "missing"
    CONFLICTED = "conflicted"
    ORPHANED = "orphaned"
    YOURS = "yours"


@dataclass(frozen=True)
class FileStatus:
    """One file.

    Attributes:
        path: POSIX path relative to the project.
        state: What has become of it.
        kind: Who writes it; None for an orphan and for a file that is none of vextract's.
        note: Where to look, for a conflict or an orphan.
    """

    path: str
    state: State
    kind: FileKind | None
    note: str = ""


@dataclass(frozen=True)
class Status:
    """A project as it stands.

    Attributes:
        lock: Its lock.
        files: Managed files, hooks, orphans, and the owner's own files beside them; sorted by path.
        base: What is wrong with the base; empty where nothing shows.
        upgrade: The upgrade that is going on, if one is.
        phase: How far it has come.
        newer: Newer supported releases of verl, oldest first.
        vextract: The newer vextract that runs now, whose templates may differ; None: the one that wrote the project.
    """

    lock: Lock
    files: tuple[FileStatus, ...]
    base: str
    upgrade: str | None
    phase: Phase | None
    newer: tuple[str, ...]
    vextract: str | None

    @property
    def drift(self) -> bool:
        """Return True if a file differs or an upgrade is unfinished."""
        at_rest = (State.CLEAN, State.YOURS)
        return bool(self.base or self.upgrade) or any(file.state not in at_rest for file in self.files)

    def paths(self, state: State) -> tuple[str, ...]:
        """Return the files in a state."""
        return tuple(file.path for file in self.files if file.state is state)

    def say_next_steps(self) -> list[str]:
        """Return what to do about it, a line each."""
        lines = []
        if self.phase is not None:
            first = "resolve the conflicts, then " if self.phase is Phase.CONFLICTS else ""
            lines.append(
                f"{first}`vextract upgrade --continue` finishes the upgrade, `vextract upgrade --abort` undoes it"
            )
        missing = {file.kind for file in self.files if file.state is State.MISSING}
        if self.base or FileKind.VENDORED in missing:
            lines.append("`vextract sync` restores what is missing of verl")
        if FileKind.TEMPLATE in missing:
            lines.append("`vextract sync --removed` restores all that is missing")
        if self.paths(State.EDITED):
            lines.append("`vextract diff` shows your edits")
        if (self.newer or self.vextract) and self.phase is None:
            lines.append("`vextract upgrade --dry-run` shows what an upgrade would do")
        return lines


def read_status(project: Path, lock: Lock) -> Status:
    """Look at every file of a project."""
    pending = journal.read(project)
    phase = None if pending is None else journal.read_phase(project, pending)
    if phase is Phase.DONE:
        pending = phase = None
    digests = read_digests_on_disk(lock, project)
    files = [_read_file_state(project, file, digests.get(file.path)) for file in lock.files]
    parked = {path.relative_to(project).as_posix() for path in readers.list_files_below(project / ORPHANED)}
    for path in sorted(parked - {f"{path}{NOTE_SUFFIX}" for path in parked}):
        note = f"see {path}{NOTE_SUFFIX}" if f"{path}{NOTE_SUFFIX}" in parked else ""
        files.append(FileStatus(path, State.ORPHANED, None, note))
    # The owner's own files, without those that Git ignores.
    known = {file.path for file in lock.files} | {NAME, OWN_MANIFEST}
    known |= {f"{path}{BESIDE_SUFFIX}" for path in known}
    at_top = [item.name for item in project.iterdir() if item.is_file() and not item.name.startswith(".")]
    if own := [path for path in (*at_top, *find_owner_files(project, lock)) if path not in known]:
        files += [FileStatus(path, State.YOURS, None) for path in git.drop_ignored(project, own, NAME)]
    own_manifest = read_own_manifest(project / OWN_MANIFEST)
    if own_manifest != lock.options.manifest:
        note = f"the project does not follow it yet: `vextract upgrade --to {lock.options.verl}`"
        files.append(FileStatus(OWN_MANIFEST, State.EDITED, None, note))
    elif own_manifest:
        files.append(FileStatus(OWN_MANIFEST, State.YOURS, None))
    supported = releases.list_supported()
    before = releases.find_before(lock.options.verl)
    return Status(
        lock=lock,
        files=tuple(sorted(files, key=lambda file: file.path)),
        base="" if (project / base.PATH).is_file() else f"{base.PATH} is missing",
        upgrade=pending.title if pending is not None else None,
        phase=phase,
        newer=supported[supported.index(before) + 1 :] if before is not None else supported,
        vextract=__version__ if lock.vextract != __version__ else None,
    )


def _read_file_state(project: Path, file: LockedFile, digest: str | None) -> FileStatus:
    path, kind = file.path, file.kind
    if kind is FileKind.HOOK:
        return FileStatus(path, State.YOURS, kind)
    if os.path.lexists(project / f"{path}{BESIDE_SUFFIX}"):  # also where its owner has moved the file away
        return FileStatus(path, State.CONFLICTED, kind, f"the new version is {path}{BESIDE_SUFFIX}")
    if digest is None:
        return FileStatus(path, State.MISSING, kind)
    if digest == file.sha256:
        return FileStatus(path, State.CLEAN, kind)
    with contextlib.suppress(OSError):
        data = readers.read_bytes(project / path)
        if merge.find_first_conflict(data):
            begun = [str(number) for number, line in merge.find_marker_lines(data) if line.startswith(b"<")]
            note = f"line{'s'[: len(begun) > 1]} {', '.join(begun)}" if begun else "a marker is left"
            return FileStatus(path, State.CONFLICTED, kind, note)
    return FileStatus(path, State.EDITED, kind)
