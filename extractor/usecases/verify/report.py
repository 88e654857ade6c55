"""The types of `vextract verify`'s report."""

from dataclasses import dataclass
from enum import Enum


class CheckStatus(str, Enum):
    """Says how a check ended."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"
    REPORTED = "reported"


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: "imports", "parity", ...
        status: REPORTED is for what a user should know and what is no failure.
        summary: One line.
        details: A line each: the problems first.
    """

    name: str
    status: CheckStatus
    summary: str
    details: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return True unless the check failed."""
        return self.status is not CheckStatus.FAILED
