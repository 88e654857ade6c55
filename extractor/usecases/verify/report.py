"""The types of `vextract verify`'s report."""

from dataclasses import dataclass
from enum import Enum

from extractor.values.wording import count_noun

__all__ = ["Check", "CheckStatus", "Report", "count_noun"]


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


@dataclass(frozen=True)
class Report:
    """All checks, in the order in which they ran."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Return True where no check failed."""
        return all(check.ok for check in self.checks)
