"""Keep libcst away from statements that no rule can touch: they are byte for byte upstream's, and need no parsing.

Such a statement is replaced by a one-line stand-in before libcst sees the text, and put back afterwards.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from extractor.manifest import Edit
from extractor.rewrite.text import lines_of

_STAND_IN = re.compile(r"^(?:def )?__kept_(\d+)__(?:\(\): \.\.\.)?(?=\r?$)", re.MULTILINE)
_TOUCHED = re.compile(r"\b(?:verl|__all__|import|__kept_\d+__)\b")
_RAY = re.compile(r"\bray\b|single_controller|\.remote\b")


class Aside:
    """The statements of a text that were set aside.

    Attributes:
        compact: The text with stand-ins; it has as many top-level statements as the whole text.
    """

    def __init__(self, text: str, body: Sequence[ast.stmt], edits: Iterable[Edit]) -> None:
        """Set aside what neither the rules for imports and strings nor these edits can touch.

        Args:
            text: A module's text.
            body: The same, parsed.
            edits: Of the fixes that apply.
        """
        self._saved: list[str] = []
        # What means Ray is for scopes to say, not for words: a text that mentions it stays whole.
        self.compact = text if mentions_ray(text) else self._compacted(text, body, tuple(edits))

    def whole(self, code: str) -> str:
        """A text that libcst has written, with the statements back in their places."""
        return _STAND_IN.sub(lambda found: self._saved[int(found.group(1))], code)

    def _compacted(self, text: str, body: Sequence[ast.stmt], edits: tuple[Edit, ...]) -> str:
        lines = lines_of(text)
        out: list[str] = []
        done = 0
        for position, node in enumerate(body):
            first, last = _lines(node)
            alone = (position == 0 or _lines(body[position - 1])[1] <= first) and (
                position + 1 == len(body) or _lines(body[position + 1])[0] >= last
            )
            code = "".join(lines[first:last])
            if not alone or not _untouched(node, code, edits):
                continue
            stripped = code.rstrip("\r\n")
            out += lines[done:first]
            definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            name = f"__kept_{len(self._saved)}__"
            out.append((f"def {name}(): ..." if definition else name) + code[len(stripped) :])
            self._saved.append(stripped)
            done = last
        return "".join(out + lines[done:])


def mentions_ray(text: str) -> bool:
    """False where no name of the text can stand for Ray."""
    return _RAY.search(text) is not None


def _lines(node: ast.stmt) -> tuple[int, int]:
    """Half-open range of a statement's lines, decorators included, counted from 0."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(item.lineno for item in decorators)]) - 1, node.end_lineno or node.lineno


def _untouched(node: ast.stmt, code: str, edits: tuple[Edit, ...]) -> bool:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    if not isinstance(node, kinds) or _TOUCHED.search(code):
        return False
    name = getattr(node, "name", None)
    for edit in edits:
        if edit.within:
            if name is None or edit.within.partition(".")[0] == name:
                return False
        elif all(word in code for word in re.findall(r"\w+", edit.match or "")):
            return False
    return True
