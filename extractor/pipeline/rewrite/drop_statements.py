"""Drop statements and methods not kept, with their comments.

This works on lines rather than on libcst's tree: what stays is byte for byte upstream's, and libcst parses less.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from extractor.pipeline.index.syntax import find_first_line, list_bound_names
from extractor.values.readers import split_lines

_BINDING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.AugAssign)
_NONE: Mapping[int, Sequence[int]] = MappingProxyType({})


@dataclass(frozen=True)
class Dropped:
    """The text that is left.

    Attributes:
        text: Upstream's text without the dropped statements.
        names: What the dropped definitions bound, in order.
        others: How many dropped statements bind nothing (effects, `if` blocks, ...).
        rest: The dropped statements themselves.
        methods: The dropped methods of classes that stay, "Class.method", in order.
    """

    text: str
    names: tuple[str, ...]
    others: int
    rest: str = ""
    methods: tuple[str, ...] = ()


@dataclass
class _Chunk:
    """A top-level statement, or several on one line, with its comments.

    Attributes:
        text: The statement's lines, the comment lines attached above and below included.
        sections: Comment blocks above it that stand alone between blank lines.
        blank: Blank lines directly above the text (its attached comments included).
        indices: The statements' indices in the module's body.
    """

    text: list[str]
    sections: list[_Section]
    blank: int
    indices: list[int]


@dataclass
class _Section:
    """Holds a comment block that heads the statements after it."""

    lines: list[str]
    blank: int


def drop_statements(
    source: str, kept: frozenset[int], parsed: Sequence[ast.stmt] = (), members: Mapping[int, Sequence[int]] = _NONE
) -> Dropped:
    """Keep the top-level statements with these indices, and the docstring.

    Args:
        source: The module's text.
        kept: Indices of the statements that stay.
        parsed: That body, where somebody has parsed the text already.
        members: Of classes that stay, the positions of methods in their bodies that go.
    """
    body = list(parsed) or ast.parse(source).body
    lines = split_lines(source)
    if ast.get_docstring(ast.Module(body=body[:1], type_ignores=[]), clean=False) is not None:
        kept = kept | {0}
    gone = [index for index in range(len(body)) if index not in kept]
    thinned = {index: tuple(members[index]) for index in sorted(members) if index in kept and members[index]}
    if not gone and not thinned:
        return Dropped(source, (), 0)
    text, rest = _drop_from(source, lines, body, kept, thinned)
    names = [name for index in gone for name in _list_bound(body[index])]
    others = sum(1 for index in gone if not _list_bound(body[index]))
    methods = [
        f"{node.name}.{_list_bound(node.body[position])[0]}"
        for index, positions in thinned.items()
        if isinstance(node := body[index], ast.ClassDef)
        for position in positions
    ]
    return Dropped("".join(text), tuple(dict.fromkeys(names)), others, "".join(rest), tuple(dict.fromkeys(methods)))


def _drop_from(
    source: str, lines: list[str], body: list[ast.stmt], kept: Collection[int], thinned: Mapping[int, Sequence[int]]
) -> tuple[list[str], list[str]]:
    """Return the lines that stay and those that go."""
    header, chunks, footer = _split_chunks(lines, body)
    out = list(header)
    rest: list[str] = []
    pending: list[_Section] = []
    dropped_before = False
    gap_after_last = 0
    for chunk in chunks:
        if chunk.sections:
            pending = list(chunk.sections)
        stays = [index for index in chunk.indices if index in kept]
        blank_above = chunk.sections[0].blank if chunk.sections else chunk.blank
        if not dropped_before:
            gap_after_last = blank_above
        if not stays:
            dropped_before = True
            rest += chunk.text
            continue
        for position, section in enumerate(pending):
            blank = section.blank if position or not dropped_before else max(section.blank, gap_after_last)
            out += _make_blank_lines(blank, out) + section.lines
        if dropped_before and not pending:
            out += _make_blank_lines(max(chunk.blank, gap_after_last), out)
        else:
            out += _make_blank_lines(chunk.blank, out)
        pending = []
        dropped_before = False
        whole = len(stays) == len(chunk.indices)
        gone_here = [index for index in chunk.indices if index not in kept]
        rest += [] if whole else [_keep_some_of_line(source, body, chunk, gone_here)]
        node = body[stays[0]]
        if stays[0] in thinned and isinstance(node, ast.ClassDef):
            inner, methods = _drop_methods(source, lines, node, thinned[stays[0]])
            first = find_first_line(node)
            above = chunk.text.index(lines[first])
            out += [*chunk.text[:above], *inner, *chunk.text[above + (node.end_lineno or 0) - first :]]
            rest += [f"class {node.name}:\n", *methods]
        else:
            out += chunk.text if whole else [_keep_some_of_line(source, body, chunk, stays)]
    out += footer if not dropped_before else []
    return out, rest


def _drop_methods(
    source: str, lines: list[str], node: ast.ClassDef, positions: Sequence[int]
) -> tuple[list[str], list[str]]:
    """Return a class's lines without some methods, and the removed lines."""
    kept = set(range(len(node.body))) - set(positions)
    # Lines above the first statement of the body belong to the class whatever becomes of that.
    start, end = find_first_line(node), node.end_lineno or node.lineno
    left, gone = _drop_from(source, lines[:end], list(node.body), kept, {})
    nothing = " " * node.body[0].col_offset + "pass" + _end_of(lines[start])
    return left[start:] + ([] if kept else [nothing]), gone


def _make_blank_lines(count: int, out: list[str]) -> list[str]:
    """Return empty lines with the file's line end."""
    if not out:
        return []
    return [_end_of(out[-1])] * count


def _end_of(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :] or "\n"


def _split_chunks(lines: list[str], body: list[ast.stmt]) -> tuple[list[str], list[_Chunk], list[str]]:
    """Split a file into head, statements with comments, and tail."""
    spans: list[tuple[int, int, list[int]]] = []
    for index, node in enumerate(body):
        first, last = find_first_line(node), node.end_lineno or node.lineno
        if spans and first < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]), [*spans[-1][2], index])
        else:
            spans.append((first, last, [index]))
    header = lines[: spans[0][0]] if spans else lines
    chunks: list[_Chunk] = []
    for position, (first, last, indices) in enumerate(spans):
        if position == 0:
            chunks.append(_Chunk(lines[first:last], [], 0, indices))
            continue
        below, sections, blank, above = _split_gap(lines[spans[position - 1][1] : first], body[indices[0]].col_offset)
        chunks[-1].text += below
        chunks.append(_Chunk(above + lines[first:last], sections, blank, indices))
    footer = lines[spans[-1][1] :] if spans else []
    return header, chunks, footer


def _split_gap(gap: list[str], indent: int) -> tuple[list[str], list[_Section], int, list[str]]:
    """Share the lines between two statements of one indentation out.

    Returns:
        Lines of the statement above (comments indented further, a comment right below it), free-standing comment
        blocks, the number of blank lines above the next statement, and the comment lines attached to that statement.
    """
    below_end = 0
    for index, line in enumerate(gap):
        if line.strip() and line[: indent + 1].isspace():
            below_end = index + 1
    if below_end == 0:
        while below_end < len(gap) and gap[below_end].strip():
            below_end += 1
        if below_end == len(gap):
            below_end = 0
    below, rest = gap[:below_end], gap[below_end:]
    blocks: list[_Section] = []
    blank = 0
    open_block = False
    for line in rest:
        if line.strip():
            if open_block:
                blocks[-1].lines.append(line)
            else:
                blocks.append(_Section([line], blank))
                open_block = True
            blank = 0
        else:
            blank += 1
            open_block = False
    if open_block:
        attached = blocks.pop()
        return below, blocks, attached.blank, attached.lines
    return below, blocks, blank, []


def _keep_some_of_line(source: str, body: list[ast.stmt], chunk: _Chunk, stays: list[int]) -> str:
    """Join the kept statements of one line by semicolons."""
    parts = [ast.get_source_segment(source, body[index]) or "" for index in stays]
    end = chunk.text[-1][len(chunk.text[-1].rstrip("\r\n")) :]
    return "; ".join(parts) + end


def _list_bound(node: ast.stmt) -> list[str]:
    """Return the names that a definition or assignment binds."""
    return list(list_bound_names(node)) if isinstance(node, _BINDING) else []
