"""Texts of bash that are worked out from their characters: patterns, and what stands in their place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.quoting import ansi, literal, pieces
from extractor.importers.runs.bash.state import State

if TYPE_CHECKING:
    from tree_sitter import Node

_NAME = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


class Texts:
    """Works them out.

    Args:
        state: Of the script.
        in_quotes: What a text between double quotes expands to, which stands where a node does.
    """

    def __init__(self, state: State, in_quotes: Callable[[str, Node], str]) -> None:
        self._state = state
        self._in_quotes = in_quotes

    def pattern(self, text: str, node: Node) -> str:
        """Return a pattern, expanded: what is quoted in it means itself, and stands behind a backslash."""
        return "".join(self._in_pattern(piece, node) for piece in pieces(text))

    def plain(self, text: str, node: Node) -> str:
        """Return a text, expanded and without its quotes."""
        return "".join(self._piece(piece, node) for piece in pieces(text))

    def _in_pattern(self, piece: str, node: Node) -> str:
        if piece[0] == "\\":
            return piece if piece[1:] != "\n" else ""
        is_quoted = piece[0] in "'\"" or piece[:2] in ("$'", '$"')
        return literal(self._piece(piece, node)) if is_quoted else self._piece(piece, node)

    def _piece(self, piece: str, node: Node) -> str:
        if piece[0] == "\\":
            return piece[1:].removeprefix("\n")
        if len(piece) == 1:
            return piece
        if piece[0] == "'":
            return piece[1:-1]
        if piece[:2] == "$'":
            return ansi(piece)
        name = _NAME.fullmatch(piece)
        if name is not None:
            return self._state.variable(name[1] or name[2])
        inner = piece.removeprefix("$") if piece[:2] == '$"' else piece
        return self._in_quotes(inner[1:-1] if inner[0] == '"' else inner, node)
