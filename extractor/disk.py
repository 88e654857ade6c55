"""Writing files so that a kill at any moment leaves the old bytes or the new ones; and one writer at a time."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from extractor.errors import CheckFailed

if os.name == "posix":
    import fcntl


def write_new(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file that does not exist yet, down to the disk.

    Args:
        path: Where; its directory exists.
        data: The bytes.
        mode: Permissions; None: those of any new file.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        if mode is not None:
            path.chmod(mode)
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(path: Path, data: bytes, mode: int | None = None) -> None:
    """Give a file new bytes by one rename. What an interrupted call leaves beside it, the next one removes."""
    scratch = scratch_of(path)
    scratch.unlink(missing_ok=True)
    try:
        write_new(scratch, data, mode)
        scratch.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def remove(path: Path) -> None:
    """Remove a file."""
    path.unlink()
    sync_directory(path.parent)


def scratch_of(path: Path) -> Path:
    """Return where `replace` writes before it renames."""
    return path.with_name(f".{path.name}.vextract-tmp")


def sync_directory(folder: Path) -> None:
    """Make renames in a directory last."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[bool]:
    """Lock a directory against other processes that do so; False where one has it.

    The system drops the lock when the process ends, however it ends.
    """
    if os.name != "posix":
        yield True
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # A file system without locks is no reason not to work.
            yield error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        else:
            yield True
    finally:
        os.close(handle)


def check_place(project: Path, path: str) -> None:
    """Refuse to write through a link that leads out of the project, or below a file.

    Raises:
        CheckFailed: it does.
    """
    folder = (project / path).parent
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise CheckFailed(
            f"{path}: {folder.relative_to(project)} is no directory", hint="move it away, then run the command again"
        )
    if not folder.resolve().is_relative_to(project.resolve()):
        raise CheckFailed(
            f"{path}: {folder.relative_to(project)} leads out of the project", hint="replace the link by a directory"
        )
