# vextract:template base/__package__/errors.py - edit freely
"""The errors of whatever a run's owner can put right."""

import errno
import os
import re
import sys
from dataclasses import dataclass
from typing import Any

from .shims.not_vendored import FeatureNotVendored

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
RESUMABLE = "hint: the same command goes on from the last checkpoint in trainer.default_local_dir"
ROOM = "make room, or write to another disk (trainer.default_local_dir, data.cache_dir)"


class ProjectError(Exception):
    """The base of this project's errors: ConfigError, DataError, HookError, CheckpointError, DivergenceError..."""


@dataclass(eq=False, repr=False)
class HintedError(ProjectError, ValueError):
    """An error whose text ends with a hint that says what to do.

    Attributes:
        message: what is wrong.
        hint: what to do.
    """

    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}"


class ConfigError(HintedError):
    """The config, the command line, or what a caller gives beside it, cannot be used."""


class DataError(HintedError):
    """The data cannot be used as configured, or as given."""


class DivergenceError(ProjectError, RuntimeError):
    """A model no longer computes finite numbers. The text ends with a hint that says what to do."""


def add_note(error: BaseException, note: str) -> None:
    """Have `note` shown below the error, as its own `add_note` does, which Python has since 3.11."""
    error.__notes__ = [*attached_notes(error), note]  # type: ignore[attr-defined]


def attached_notes(error: BaseException) -> list[Any]:
    """Return what `add_note` has added."""
    return list(getattr(error, "__notes__", []))


def os_error(error: BaseException) -> OSError | None:
    """Return the error of the system below another one; None: there is none."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return cause
        if found := re.search(r"\(os error (\d+)\)", str(cause)):  # of a library in Rust
            return OSError(int(found[1]), os.strerror(int(found[1])))
        cause = cause.__cause__ or cause.__context__  # torch fails once more when it closes the file
    return None


def full_disk(error: BaseException) -> str | None:
    """Say which file the disk has no room for; None if the error is another one."""
    found = os_error(error)
    if found is None or found.errno not in FULL:
        return None
    return f"the disk takes no more: {f'{found.filename}: ' if found.filename else ''}{found.strerror}"


def describe(error: BaseException) -> tuple[int, str | None]:
    """Return the exit code and the text of an error; no text if it may be a bug, which needs its traceback."""
    if isinstance(error, (ProjectError, FeatureNotVendored)):
        code = 2 if isinstance(error, (ConfigError, DataError, FeatureNotVendored)) else 1
        return code, "\n".join([str(error), *attached_notes(error)])
    if full := full_disk(error):
        return 1, "\n".join([f"{full}\nhint: {ROOM}", *attached_notes(error)])
    return 1, None


def show_plainly() -> None:
    """Have Python print errors of a script that its owner can put right without a traceback."""
    former: Any = sys.excepthook
    if former.__module__ == __name__:
        return

    def show(kind: Any, error: BaseException, trace: Any) -> None:
        text = describe(error)[1]
        if text is None:
            former(kind, error, trace)
        else:
            print(f"error: {text}", file=sys.stderr)

    sys.excepthook = show
