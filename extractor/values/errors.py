"""Errors with a message, a hint and an exit code."""

from collections.abc import Iterable
from typing import ClassVar


class VextractError(Exception):
    """Base of every error that vextract raises on purpose.

    Attributes:
        code: Exit code of the process when this error reaches the command line.
        message: One sentence that says what is wrong, naming the file or the option.
        hint: What to do next; printed as a line of its own.
        details: What led there, line by line; printed before the message.
    """

    code: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str, details: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = tuple(details)

    def __str__(self) -> str:
        return self.message


class CheckFailed(VextractError):
    """Drift, a conflict or a failed check."""

    code = 1


class UsageError(VextractError):
    """Reports an error in the command line, project or user files."""

    code = 2


class MissingRoot(UsageError):
    """Reports that a release lacks what the owner's manifest asks for.

    Attributes:
        symbol: "module:name".
        is_elsewhere: True if another module of the release has this name.
    """

    def __init__(self, symbol: str, message: str, hint: str, *, is_elsewhere: bool) -> None:
        super().__init__(message, hint=hint)
        self.symbol = symbol
        self.is_elsewhere = is_elsewhere


class SourceError(VextractError):
    """Reports that verl's source is missing or not as pinned."""

    code = 3


class InternalError(VextractError):
    """A bug in vextract."""

    code = 70
