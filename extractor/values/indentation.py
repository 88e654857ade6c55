"""Indent Python by another number of columns."""

import ast
import inspect
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

from extractor.values import readers

_BETWEEN = {tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.COMMENT}
# From 3.12 on a text with fields in braces is several tokens.
_OPENS = {getattr(tokenize, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(tokenize, name)}
_CLOSES = {getattr(tokenize, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(tokenize, name)}


def reindent(text: str, width: int = 4) -> str:
    """Return a module with other indentation; unchanged if that fails.

    Lines of a statement below its first, and comments, move with it; texts over several lines stay as they are, but
    for docstrings.

    Args:
        text: Of a whole module, with line feeds.
        width: Columns.
    """
    lines = io.StringIO(text).readlines()  # as the tokenizer counts them
    try:
        moves = _find_moves(lines, text, width)
        if not any(moves.values()):
            return text
        moved = "".join(_move_line(line, moves.get(number, 0)) for number, line in enumerate(lines, 1))
        return moved if _dump_without_indents(moved) == _dump_without_indents(text) else text
    except (tokenize.TokenError, SyntaxError):
        return text


@dataclass
class _Reading:
    """How far a module was read.

    Attributes:
        columns: Where the blocks around the present statement begin.
        before: The same of the statement before.
        inside: The tokens of the present statement.
        remarks: The comments since the last statement, as line and column.
        kept: The lines that begin within a text.
    """

    columns: list[int] = field(default_factory=lambda: [0])
    before: list[int] = field(default_factory=lambda: [0])
    inside: list[tokenize.TokenInfo] = field(default_factory=list)
    remarks: list[tuple[int, int]] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)


def _find_moves(lines: list[str], text: str, width: int) -> dict[int, int]:
    """Return the columns by which each line moves right."""
    moves: dict[int, int] = {}
    now = _Reading()
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, end = token.start[0], token.end[0]
        if token.type == tokenize.INDENT:
            now.columns.append(_measure_column(lines[row - 1]))
        elif token.type == tokenize.DEDENT:
            now.columns.pop()
        elif token.type == tokenize.COMMENT and not now.inside:
            now.remarks.append((row, _measure_column(lines[row - 1])))
        elif token.type not in _BETWEEN:
            now.inside.append(token)
        if token.type == tokenize.STRING:
            now.kept.update(range(row + 1, end + 1))
        elif token.type in _OPENS:
            opened.append(row)
        elif token.type in _CLOSES:
            now.kept.update(range(opened.pop() + 1, end + 1))
        if token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
            moves.update(_find_statement_moves(lines, now, end, width))
            now = _Reading(now.columns, list(now.columns))
    return moves


def _find_statement_moves(lines: list[str], now: _Reading, end: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield the moves of a statement and the comments above it."""
    for row, column in now.remarks:
        stack = next((side for side in (now.columns, now.before) if column in side), now.columns)
        level = stack.index(column) if column in stack else len(stack) - 1
        yield row, width * level - stack[level]
    if not now.inside:
        return
    move = width * (len(now.columns) - 1) - now.columns[-1]
    rows = range(now.inside[0].start[0], end + 1)
    kept = now.kept
    if all(token.type == tokenize.STRING for token in now.inside):  # a docstring
        within = [lines[row - 1] for row in rows[1:] if lines[row - 1].strip()]
        kept = set() if all(_measure_column(line) >= -move for line in within) else kept
    yield from ((row, move) for row in rows if row not in kept)


def _measure_column(line: str) -> int:
    bare = line.lstrip(" \t")
    return len(line[: len(line) - len(bare)].expandtabs())


def _move_line(line: str, columns: int) -> str:
    bare = line.lstrip(" \t")
    return " " * max(0, _measure_column(line) + columns) + bare if columns and bare.strip() else line


def _dump_without_indents(text: str) -> str:
    """Return what a module says, whatever the indentation of its docstrings."""
    tree = readers.parse_python(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value = ast.Constant(inspect.cleandoc(node.value.value))
    return ast.dump(tree)
