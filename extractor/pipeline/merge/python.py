"""Split a Python module into pieces: top-level statements and class members."""

import ast
from collections.abc import Iterator, Sequence

from extractor.pipeline.index.syntax import find_first_line, is_docstring, list_bound_names
from extractor.pipeline.merge.pieces import Piece, Unsupported, make_distinct
from extractor.pipeline.rewrite.names import Names
from extractor.values import readers

_TOP, _END, _DOCSTRING = "comments at the top", "comments at the end", "docstring"
FIRST = (_TOP, _DOCSTRING, "from __future__")


# First line, last line and statements.
Row = tuple[int, int, list[ast.stmt]]


def split_python(text: str) -> tuple[Piece, ...]:
    """Split a module into pieces; joined they give its text.

    Raises:
        Unsupported: it is no Python, or has line ends of another kind than line feeds.
    """
    if "\r" in text.replace("\r\n", "") or "\f" in text:
        raise Unsupported("line ends")
    body = _parse(text).body
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return _split_pieces(body, lines, 0, len(lines))


def add_missing_imports(merged: str, theirs: str, mine: str) -> str:
    """Add the imports that merged code lacks, from either side.

    One side drops an import that nothing of its own uses any more, while the other's code still does. What my own
    file uses without an import was taken out by its owner, and stays out.
    """
    try:
        lacking = _find_unbound(merged)
        lacking -= _find_unbound(mine) if lacking else set()
        if not lacking:
            return merged
        known: dict[str, str] = {}
        for side in (mine, theirs):
            known |= {name: line for node in _parse(side).body for name, line in _map_imports(node)}
        body = _parse(merged).body
    except (Unsupported, SyntaxError, ValueError):
        return merged
    added = sorted({known[name] for name in lacking if name in known})
    if not added:
        return merged
    lines = merged.split("\n")
    first = next(
        (i for i, node in enumerate(body) if not isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr))), len(body)
    )
    place = body[first - 1].end_lineno or 0 if first else 0
    return "\n".join((*lines[:place], *added, *lines[place:]))


def _parse(text: str) -> ast.Module:
    try:
        return readers.parse_python(text)
    except SyntaxError as error:
        raise Unsupported(str(error)) from None


def cut_rows(
    body: Sequence[ast.stmt], lines: list[str], start: int, stop: int
) -> list[tuple[int, int, list[ast.stmt]]]:
    """Return first line, last line and statements of each row of a body.

    Statements on one line are one row, and what stands above them belongs to it. Comments at the top of a module, and
    what is left at the end, are rows without a statement.
    """
    rows: list[Row] = []
    done = start
    for node in body:
        begin, end = find_first_line(node), node.end_lineno or node.lineno
        if rows and rows[-1][2] and begin < done:
            rows[-1] = (rows[-1][0], max(end, done), [*rows[-1][2], node])
        else:
            if not rows and not start and any(line.strip() for line in lines[:begin]):
                rows.append((0, begin, []))
                done = begin
            rows.append((done, end, [node]))
        done = rows[-1][1]
    return [*rows, (done, stop, [])] if done < stop else rows


def _split_pieces(body: Sequence[ast.stmt], lines: list[str], start: int, stop: int) -> tuple[Piece, ...]:
    """Split a body into pieces; statements on one line stay together."""
    return make_distinct(
        [
            _make_statement(nodes, lines, begin, end)
            if nodes
            else _make_piece(_END if end == stop else _TOP, lines, begin, end)
            for begin, end, nodes in cut_rows(body, lines, start, stop)
        ]
    )


def _make_piece(key: str, lines: list[str], start: int, end: int) -> Piece:
    first = start
    while first < end and not lines[first].strip():
        first += 1
    return Piece(key, _join_lines(lines, start, first), _join_lines(lines, first, end))


def _make_statement(nodes: list[ast.stmt], lines: list[str], start: int, end: int) -> Piece:
    node = nodes[0]
    plain = _make_piece(", ".join(dict.fromkeys(map(_name_key, nodes))), lines, start, end)
    if len(nodes) > 1:
        return Piece(plain.key, plain.lead, plain.head, kind="statements")
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return Piece(plain.key, plain.lead, plain.head, names=tuple(line for _, line in _map_imports(node)))
    if isinstance(node, ast.ClassDef) and node.body[0].lineno > node.lineno:
        inside = find_first_line(node.body[0])
        parts = _split_pieces(node.body, lines, inside, end)
        first = start + plain.lead.count("\n")
        return Piece(plain.key, plain.lead, _join_lines(lines, first, inside), parts, kind="ClassDef")
    return Piece(plain.key, plain.lead, plain.head, kind=type(node).__name__, named=not plain.key.startswith("`"))


def _join_lines(lines: list[str], start: int, end: int) -> str:
    return "".join(f"{line}\n" for line in lines[start:end])


def _name_key(node: ast.stmt) -> str:
    if isinstance(node, ast.ImportFrom):
        return f"from {'.' * node.level}{node.module or ''}"
    if is_docstring(node):
        return _DOCSTRING
    names = list(dict.fromkeys(list_bound_names(node, places=True)))
    if isinstance(node, ast.Import) or not names:
        return f"`{ast.unparse(node)}`"
    return ", ".join(names)


def _map_imports(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Map each imported name to a statement that imports it alone."""
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return
    start = f"from {'.' * node.level}{node.module or ''} import " if isinstance(node, ast.ImportFrom) else "import "
    for alias in node.names:
        renamed = f" as {alias.asname}" if alias.asname else ""
        yield alias.asname or alias.name.partition(".")[0], f"{start}{alias.name}{renamed}"


def _find_unbound(text: str) -> set[str]:
    """Return unbound names that a module reads, including builtins."""
    return set() if "import *" in text else {use.chain[0] for use in Names(text).unbound()}
