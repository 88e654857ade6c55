"""The error for upstream text that cannot be rewritten without guessing."""

from difflib import SequenceMatcher

from extractor.values.errors import CheckFailed
from extractor.values.readers import split_lines


class CannotRewrite(CheckFailed):
    """A construct that no rule covers.

    Attributes:
        path: Upstream path of the file.
        line: Line in the upstream file; 0 where the problem is the whole file's.
    """

    def __init__(self, path: str, line: int, problem: str, *, hint: str) -> None:
        self.path = path
        self.line = line
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}", hint=hint)


def find_upstream_line(source: str, current: str, line: int) -> int:
    """Return the upstream line that a half-rewritten line came from."""
    matcher = SequenceMatcher(None, split_lines(source), split_lines(current), autojunk=False)
    best = 1
    for block in matcher.get_matching_blocks():
        if block.b > line - 1:
            break
        best = block.a + min(line - 1 - block.b, max(block.size - 1, 0)) + 1
    return best
