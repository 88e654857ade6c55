"""What there is to read: a document, a file, what a command prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Input:
    """What is there to read.

    Attributes:
        text: All of it; None where that is not known.
        at: How far it is read.
    """

    text: str | None
    at: int = 0

    def record(self, mark: str) -> tuple[str, bool]:
        """Take what stands before a mark; whether the mark is there."""
        text = self.text or ""
        end = text.find(mark, self.at) if mark else -1
        found = text[self.at :] if end < 0 else text[self.at : end]
        self.at = len(text) if end < 0 else end + 1
        return found, end >= 0
