"""Fold branches on a project's features, such as `if CRITIC:`.

The constants are those of `templates/base/__package__/switches.py`, which no project has. What stays is, byte for byte,
the template's, but for its indentation.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from extractor.pipeline.index.syntax import find_span, replace_spans, write_import
from extractor.values.readers import parse_python_cached, split_lines

SWITCHES = "switches"
_ITSELF = r"from (?:\w+|\.)\.*switches import (?:\([^)]*\)|[^(\n]*)\n"
_ATOMS = (ast.Attribute, ast.Call, ast.Name, ast.Subscript)  # need no parentheses
_BEFORE = re.compile(rb"\b(and|if|not|or|return) \($")
_IMPORT = re.compile(rf"(?<=\n\n){_ITSELF}\n|^{_ITSELF}", re.MULTILINE)  # one of two blank lines around it goes too


@dataclass(frozen=True)
class _Edit:
    """Replaces lines `start` up to but excluding `end`, counted from 0."""

    start: int
    end: int
    lines: tuple[str, ...]


def read_constants(text: str) -> tuple[str, ...]:
    """Return the names that the text of `switches.py` assigns."""
    body = ast.parse(text).body
    return tuple(
        node.target.id for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    )


def fold(text: str, constants: Mapping[str, bool]) -> str:
    """Fold code that depends on constants imported from `switches`.

    Args:
        text: Of the module.
        constants: Name to value.

    Returns:
        The text, without that import; the same text where there is none.
    """
    if _IMPORT.search(text) is None:
        return text
    before = _collect_names(text)
    while (folded := _fold_branches(text, constants)) != text:
        text = folded
    folded = _fold_expressions(_IMPORT.sub("", text), constants)
    return drop_imports(folded, before - _collect_names(folded))


def _fold_branches(text: str, constants: Mapping[str, bool]) -> str:
    """Fold each outermost `if` whose test is known."""
    lines, shift = split_lines(text), 0
    for block, node, value in _find_known_branches(ast.parse(text), constants):  # a tree of its own, which is changed
        ast.increment_lineno(node, shift)
        if lines[node.lineno - 1].lstrip().startswith("elif"):
            edit = _fold_elif(lines, node, value)
        else:
            edit = _fold_if(lines, node, value, alone=len(block) == 1)
            if not value and not node.orelse:
                block.remove(node)
        lines[edit.start : edit.end] = edit.lines
        shift += len(edit.lines) - (edit.end - edit.start)
    return "".join(lines)


def _find_known_branches(
    holder: ast.AST, constants: Mapping[str, bool]
) -> Iterator[tuple[list[ast.stmt], ast.If, bool]]:
    """Yield the outermost `if`s with a known test: node, lines, value."""
    for _, block in ast.iter_fields(holder):
        for node in [*block] if isinstance(block, list) else ():
            value = _evaluate_test(node.test, constants) if isinstance(node, ast.If) else None
            if value is not None:
                yield block, node, value
            elif isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
                yield from _find_known_branches(node, constants)


def _fold_if(lines: list[str], node: ast.If, value: bool, *, alone: bool) -> _Edit:
    start, end = node.lineno - 1, node.end_lineno or node.lineno
    indent = node.col_offset
    if value:
        return _Edit(start, end, _dedent_block(_cut_block(lines, node.body, node.lineno), indent))
    if not node.orelse:
        while start and lines[start - 1].strip().startswith("#") and _measure_indent(lines[start - 1]) == indent:
            start -= 1
        if alone:
            return _Edit(start, end, (" " * indent + "pass\n",))
        above = lines[start - 1].rstrip() if start else ""
        while end < len(lines) and not lines[end].strip() and (not above or above.endswith(":")):
            end += 1
        while end == len(lines) and start and not lines[start - 1].strip():
            start -= 1
        return _Edit(start, end, ())
    first = node.orelse[0]
    if isinstance(first, ast.If) and lines[first.lineno - 1].lstrip().startswith("elif"):
        rest = lines[first.lineno - 1 : end]
        return _Edit(start, end, (rest[0].replace("elif", "if", 1), *rest[1:]))
    return _Edit(start, end, _dedent_block(_cut_block(lines, node.orelse, _find_last_line(node.body)), indent))


def _fold_elif(lines: list[str], node: ast.If, value: bool) -> _Edit:
    start, end = node.lineno - 1, node.end_lineno or node.lineno
    if value:
        return _Edit(start, end, (" " * node.col_offset + "else:\n", *_cut_block(lines, node.body, node.lineno)))
    return _Edit(start, _find_last_line(node.body), ())


def _cut_block(lines: list[str], body: list[ast.stmt], after: int) -> list[str]:
    """Return a block's lines with its comments below line `after`."""
    first = min(part.lineno for part in (body[0], *getattr(body[0], "decorator_list", ()))) - 1
    start = first
    while start > after and lines[start - 1].strip().startswith("#"):
        start -= 1
    return lines[start : _find_last_line(body)]


def _find_last_line(body: list[ast.stmt]) -> int:
    return body[-1].end_lineno or body[-1].lineno


def _dedent_block(block: list[str], indent: int) -> tuple[str, ...]:
    """Dedent a block; the lines of multi-line strings move along."""
    width = _measure_indent(block[0]) - indent
    return tuple(line[width:] if line.strip() and not line[:width].strip() else line for line in block)


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _evaluate_test(node: ast.expr, constants: Mapping[str, bool]) -> bool | None:
    """Return a test's value; None if constants do not decide it."""
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = _evaluate_test(node.operand, constants)
        return None if value is None else not value
    if isinstance(node, ast.BoolOp):
        values = [_evaluate_test(item, constants) for item in node.values]
        decisive = isinstance(node.op, ast.Or)
        if decisive in values:
            return decisive
        return not decisive if None not in values else None
    return None


def _fold_expressions(text: str, constants: Mapping[str, bool]) -> str:
    """Fold conditional and boolean expressions decided by constants."""
    if constants.keys().isdisjoint(re.findall(r"\w+", text)):  # as in most modules: nothing to parse for
        return text
    while known := [*_find_known_expressions(text, parse_python_cached(text), constants)]:
        for node, new in sorted(known, key=lambda item: (item[0].lineno, item[0].col_offset), reverse=True):
            text = _replace(text, node, new)
    return text


def _find_known_expressions(
    text: str, holder: ast.AST, constants: Mapping[str, bool]
) -> Iterator[tuple[ast.expr, str]]:
    """Yield the outermost expressions that constants change, with the text that replaces each."""
    for node in ast.iter_child_nodes(holder):
        new = _reduce_expression(text, node, constants)
        if new is not None and isinstance(node, ast.expr):
            yield node, new
        else:
            yield from _find_known_expressions(text, node, constants)


def _reduce_expression(text: str, node: ast.AST, constants: Mapping[str, bool]) -> str | None:
    """Return the text that replaces an expression; None if it stays."""
    if isinstance(node, ast.IfExp):
        value = _evaluate_test(node.test, constants)
        return None if value is None else ast.get_source_segment(text, node.body if value else node.orelse)
    if not isinstance(node, (ast.BoolOp, ast.Name, ast.UnaryOp)):
        return None
    if (value := _evaluate_test(node, constants)) is not None:
        return str(value)
    if not isinstance(node, ast.BoolOp):
        return None
    kept = [index for index, item in enumerate(node.values) if _evaluate_test(item, constants) is None]
    if len(kept) == len(node.values):
        return None
    return ast.get_source_segment(text, node.values[kept[0]]) if len(kept) == 1 else _keep_operands(text, node, kept)


def _replace(text: str, node: ast.expr, new: str) -> str:
    """Put new text in an expression's place, without parentheses that it no longer needs."""
    (row, column), (last, end) = find_span(node)
    lines = [line.encode() for line in split_lines(text)]
    bracketed = _BEFORE.search(lines[row - 1][:column]) and lines[last - 1][end:].startswith(b")")
    if bracketed and isinstance(ast.parse(f"({new})", mode="eval").body, _ATOMS):
        column, end = column - 1, end + 1
    return replace_spans(text, [((row, column), (last, end), new)])


def _keep_operands(text: str, node: ast.BoolOp, kept: list[int]) -> str:
    """Return a chain of `and` or `or` with only some of its operands, as they stand."""
    word = "and" if isinstance(node.op, ast.And) else "or"
    rest, joint = ast.get_source_segment(text, node) or "", ""
    pieces: list[tuple[str, str]] = []  # each operand, after what joins it to the one before
    for item in node.values[1:]:
        following = re.escape(ast.get_source_segment(text, item) or "")
        operand, next_joint, rest = re.split(rf"(\s+{word}\s+)(?=\(*{following})", rest, maxsplit=1)
        pieces.append((joint, operand))
        joint = next_joint
    pieces.append((joint, rest))
    chosen = [pieces[index] for index in kept]
    return chosen[0][1] + "".join(joint + operand for joint, operand in chosen[1:])


def _collect_names(text: str) -> set[str]:
    """Return the names that code uses, also in string annotations."""
    nodes = list(ast.walk(parse_python_cached(text)))
    texts = " ".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {node.id for node in nodes if isinstance(node, ast.Name)} | set(re.findall(r"\w+", texts))


def drop_imports(text: str, unused: AbstractSet[str]) -> str:
    """Drop the imports of some names from a module's text."""
    for node in reversed(parse_python_cached(text).body):
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        kept = [alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) not in unused]
        if len(kept) < len(node.names):
            lines = split_lines(text)
            new = [_write_import(node, kept)] if kept else []
            text = "".join([*lines[: node.lineno - 1], *new, *lines[node.end_lineno or node.lineno :]])
    return text


def _write_import(node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> str:
    """Write an import of some of its names, in ruff's format."""
    words = [f"{alias.name} as {alias.asname}" if alias.asname else alias.name for alias in names]
    if isinstance(node, ast.Import):
        return f"import {', '.join(words)}\n"
    return write_import(f"from {'.' * node.level}{node.module or ''}", words) + "\n"
