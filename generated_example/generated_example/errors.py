# vextract:template base/__package__/errors.py - edit freely
"""The errors of whatever a run's owner can put right."""

import errno
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class ProjectError(Exception):
    """The base of this project's errors: ConfigError, DataError, HookError, CheckpointError, DivergenceError..."""


class HintedError(ProjectError, ValueError):
    """An error whose text ends with a hint that says what to do.

    Attributes:
        message: what is wrong.
        hint: what to do.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)  # both, so that it can be pickled
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}"


class ConfigError(HintedError):
    """The config, the command line, or what a caller gives beside it, cannot be used."""


class DataError(HintedError):
    """The data cannot be used as configured, or as given."""


@dataclass(frozen=True)
class Problem:
    """Something that keeps a run from starting, and other settings with which it would start.

    Attributes:
        message, hint: what is wrong, and what to do.
        settings: by their keys; they stand for the hint.
        is_of_data: whether it is the data's, and not the config's alone.
    """

    message: str
    hint: str
    settings: Mapping[str, Any]
    is_of_data: bool = False


class DataProblems(DataError):
    """The data can be used with other settings.

    Attributes:
        problems: all that was found.
        prompts: so many for training.
    """

    def __init__(self, problems: Sequence[Problem], prompts: int) -> None:
        super().__init__("\n".join(one.message for one in problems), "; ".join(one.hint for one in problems))
        self.problems = list(problems)
        self.prompts = prompts
        self.args = (self.problems, prompts)  # so that it can be pickled


def full_disk(error: BaseException) -> str | None:
    """Say which file the disk has no room for; None if the error is another one. Libraries in Rust have their own."""
    cause: BaseException | None = error
    while cause is not None:
        found = re.search(r"\(os error (\d+)\)", str(cause))
        number = cause.errno if isinstance(cause, OSError) else int(found[1]) if found else None
        if number in FULL:
            place = getattr(cause, "filename", None)
            return f"the disk takes no more: {f'{place}: ' if place else ''}{os.strerror(number)}"
        cause = cause.__cause__ or cause.__context__  # torch fails once more when it closes the file
    return None


def report_error(error: Exception) -> int:
    """Print an error that can be put right, and return a command's exit code. Raise any other."""
    full = full_disk(error)
    if not isinstance(error, HintedError) and full is None:
        raise error
    text = str(error) if full is None else f"{full}\nhint: make room, or write to another disk"
    print(f"error: {text}", file=sys.stderr)
    return 1 if full else 2


def show_plainly() -> None:
    """Have Python print errors that a script does not catch, and that can be put right, without a traceback."""
    former: Any = sys.excepthook
    if former.__module__ == __name__:
        return

    def show(kind: Any, error: BaseException, trace: Any) -> None:
        from .run.failures import describe  # it imports much

        text = None if isinstance(error, KeyboardInterrupt) else describe(error)[1]
        if text is None:
            former(kind, error, trace)
        else:
            print(text, file=sys.stderr)

    sys.excepthook = show
