"""Hide statements that no rule can change from libcst.

Such a statement is replaced by a one-line stand-in before libcst sees the text, and put back afterwards.
"""

import ast
import re
from collections.abc import Iterator, Sequence

from extractor.pipeline.index.syntax import find_first_line
from extractor.values.readers import split_lines

_STAND_IN = re.compile(r"^[ \t]*(?:def )?__kept_(\d+)__(?:\(\): \.\.\.)?(?=\r?$)", re.MULTILINE)
_TOUCHED = re.compile(r"\b(?:verl|__all__|import|__kept_\d+__)\b")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HIDDEN = (*_DEFINITIONS, ast.Assign, ast.AnnAssign)
_RAY = re.compile(r"\bray\b|single_controller|\.remote\b")


class Placeholders:
    """The statements of a text that were set aside.

    Attributes:
        compact: The text with stand-ins; it has as many top-level statements as the whole text.
    """

    def __init__(self, text: str, body: Sequence[ast.stmt]) -> None:
        """Hide the statements that no rule can touch.

        Args:
            text: A module's text.
            body: The same, parsed.
        """
        self._saved: list[str] = []
        # What means Ray is for scopes to say, not for words: a text that mentions it stays whole.
        self.compact = text if may_mention_ray(text) else self._write_compacted(text, body)

    def whole(self, code: str) -> str:
        """Return a written text with the hidden statements restored."""
        return _STAND_IN.sub(lambda found: self._saved[int(found.group(1))], code)

    def _write_compacted(self, text: str, body: Sequence[ast.stmt]) -> str:
        lines = split_lines(text)
        out: list[str] = []
        done = 0
        for node in _find_removable(lines, body):
            first, last = _find_lines(node)
            code = "".join(lines[first:last])
            stripped = code.rstrip("\r\n")
            name = f"__kept_{len(self._saved)}__"
            stand_in = f"def {name}(): ..." if isinstance(node, _DEFINITIONS) else name
            out += lines[done:first]
            out.append(" " * node.col_offset + stand_in + code[len(stripped) :])
            self._saved.append(stripped)
            done = last
        return "".join(out + lines[done:])


def _find_removable(lines: list[str], body: Sequence[ast.stmt], within: bool = False) -> Iterator[ast.stmt]:
    """Yield the statements and methods that can be hidden."""
    for position, node in enumerate(body):
        first, last = _find_lines(node)
        before = position == 0 or _find_lines(body[position - 1])[1] <= first
        after = position + 1 == len(body) or _find_lines(body[position + 1])[0] >= last
        if not before or not after or (within and not isinstance(node, _DEFINITIONS)):
            continue
        if isinstance(node, _HIDDEN) and not _TOUCHED.search("".join(lines[first:last])):
            yield node
        elif isinstance(node, ast.ClassDef) and node.body[0].lineno > node.lineno:
            yield from _find_removable(lines, node.body, True)


def may_mention_ray(text: str) -> bool:
    """Tell whether a name in the text may mean Ray."""
    return _RAY.search(text) is not None


def _find_lines(node: ast.stmt) -> tuple[int, int]:
    """Half-open range of a statement's lines, decorators included, counted from 0."""
    return find_first_line(node), node.end_lineno or node.lineno
