"""Write files atomically, and lock out a second writer.

Every path of a project that any command writes or removes goes through `gate`.
"""

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from extractor.values import readers
from extractor.values.errors import CheckFailed

if os.name == "posix":
    import fcntl

# As any file system may spell it: in any case, with what Windows drops at the end, or as its short name there.
_GIT = re.compile(r"(\.git|git~\d+)[. ]*", re.IGNORECASE)
_GATE_HINT = "restore vextract.lock and .vextract/ from a version that you trust"


def write_new(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file that must not exist yet, and sync it.

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


def replace(path: Path, data: bytes, mode: int | None = None, check: Callable[[], None] | None = None) -> None:
    """Replace a file atomically, removing leftovers of killed calls.

    Args:
        path: Where.
        data: The bytes.
        mode: Permissions; None: those of any new file.
        check: Called right before the rename; if it raises, the file stays as it is.
    """
    scratch = name_scratch(path)
    scratch.unlink(missing_ok=True)
    try:
        write_new(scratch, data, mode)
        if check is not None:
            check()
        scratch.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def remove(path: Path) -> None:
    """Remove a file."""
    path.unlink()
    sync_directory(path.parent)


def name_scratch(path: Path) -> Path:
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
def lock_exclusively(folder: Path) -> Iterator[bool]:
    """Lock a directory; return False if another process has it.

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


def is_inside(path: str) -> bool:
    """Tell whether a path stays below its start and outside .git."""
    return readers.is_plain_path(path) and not any(map(_GIT.fullmatch, path.split("/")))


def gate(project: Path, path: str) -> Path:
    """Return a path on disk if a command may write there.

    Raises:
        CheckFailed: it leads out of the project or into Git's own files, or a link or a file is on the way.
    """
    if not is_inside(path):
        raise CheckFailed(f"{path!r}: not a path of a project's file", hint=_GATE_HINT)
    folder = project
    for part in path.split("/")[:-1]:
        folder = folder / part
        if folder.is_symlink():
            raise CheckFailed(
                f"{path}: {folder.relative_to(project)} is a link, and vextract does not write through links",
                hint="replace the link by a directory, then run the command again",
            )
        if folder.exists() and not folder.is_dir():
            raise CheckFailed(
                f"{path}: {folder.relative_to(project)} is no directory",
                hint="move it away, then run the command again",
            )
    return project / path
