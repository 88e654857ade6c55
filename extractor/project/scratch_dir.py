"""Make temporary directories, and remove those left by killed processes."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

if os.name == "posix":
    import fcntl

_MARK = ".vextract-tmp-"


@contextlib.contextmanager
def make_scratch_dir(target: Path) -> Iterator[Path]:
    """Make a directory beside the target; remove killed runs' leftovers.

    It is locked while this process lives, so that no other one takes it for a leftover. It may be renamed away.
    """
    remove_leftovers(target)
    while True:
        folder = target.parent / f".{target.name}{_MARK}{secrets.token_hex(4)}"
        folder.mkdir()
        handle = _lock(folder, wait=True)
        # Between the two lines above another run may have taken it for a leftover.
        if folder.is_dir():
            break
        _unlock(handle)
    try:
        yield folder
    finally:
        # After a rename there is nothing left of that name.
        shutil.rmtree(folder, ignore_errors=True)
        _unlock(handle)


def remove_leftovers(target: Path) -> None:
    """Remove what killed processes left; locked directories stay."""
    for folder in sorted(target.parent.glob(f".{_escape_name(target.name)}{_MARK}*")):
        handle = _lock(folder, wait=False)
        if handle is not None:
            shutil.rmtree(folder, ignore_errors=True)
            _unlock(handle)


def _escape_name(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Lock a directory; None if another process holds it."""
    if os.name != "posix" or folder.is_symlink():
        return None
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        return None
    return handle


def _unlock(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)
