"""Write the imports as planned."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from extractor.pipeline.index.syntax import (
    LINE_LENGTH,
    Span,
    drop_items,
    find_first_line,
    find_lines,
    find_span,
    read_attribute_chain,
    replace_spans,
    write_import,
)
from extractor.pipeline.rewrite.names import Names
from extractor.pipeline.rewrite.plan_imports import ImportLine, ImportPlan
from extractor.values.readers import split_lines

_NOQA = "  # noqa: F401"
_FROM = re.compile(r"from\s*[.\w\s]+?\s*\bimport\b")


def redirect_imports(names: Names, plan: ImportPlan) -> tuple[str, bool]:
    """Apply a plan that was made for exactly this module.

    Returns:
        The text, and whether a compound statement went: its test may have been the last use of some import.
    """
    writer = _Writer(names, plan)
    writer.write_block(names.tree.body)
    spans = writer.spans
    if plan.chains:
        chains = _find_chains(names.tree, plan.chains)
        spans += [span for span in chains if not any(start <= span[0] < end for start, end, _ in writer.spans)]
    return replace_spans(names.text, spans), writer.lost_block


class _Writer:
    """Replaces imports, and removes statements that this empties.

    Attributes:
        spans: What is replaced.
        lost_block: Whether a compound statement goes.
    """

    def __init__(self, names: Names, plan: ImportPlan) -> None:
        self._text, self._lines = names.text, split_lines(names.text)
        self._top = names.tree.body
        self._plan = plan
        self.spans: list[Span] = []
        self.lost_block = False

    def write_block(self, body: Sequence[ast.stmt]) -> None:
        """Write the imports in a block of which something stays."""
        run: list[ast.stmt] = []
        for node in body:
            if self._is_emptied(node):
                run.append(node)
                continue
            if run:
                self._drop(run, node, body)
                run = []
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                if node in self._plan.lines:
                    self._replace(node, self._plan.lines[node])
            else:
                self._write_inside(node)
        if run:
            self._drop(run, None, body)

    def _write_inside(self, node: ast.AST) -> None:
        """Write the imports in a compound statement that stays."""
        for part, block in ast.iter_fields(node):
            if not isinstance(block, list) or not block:
                continue
            if not isinstance(block[0], ast.stmt):
                for item in block:
                    if isinstance(item, (ast.ExceptHandler, ast.match_case)):
                        self._write_inside(item)
            elif not all(map(self._is_emptied, block)):
                self.write_block(block)
            elif isinstance(node, ast.If) and part == "orelse":
                self.spans.append(((_find_end(node.body) + 1, 0), (_find_end(block) + 1, 0), ""))
            else:
                start, _ = find_lines(self._text, block[0])
                self.spans.append((start, (_find_end(block) + 1, 0), f"{' ' * block[0].col_offset}pass\n"))

    def _is_emptied(self, node: ast.stmt) -> bool:
        """Tell whether nothing is left of a statement."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._plan.lines.get(node) == () and self._is_alone(node)
        gone = node in self._plan.dead
        if isinstance(node, (ast.If, ast.Try)) and not gone and all(map(self._is_emptied, node.body)):
            gone = not getattr(node, "finalbody", []) and (
                not node.orelse or (isinstance(node, ast.If) and all(map(self._is_emptied, node.orelse)))
            )
        self.lost_block = self.lost_block or gone
        return gone

    def _is_alone(self, node: ast.stmt) -> bool:
        """Tell whether a statement shares its lines with no other."""
        before = self._lines[node.lineno - 1].encode()[: node.col_offset]
        return not before.strip() and self._read_behind(node).strip()[:1] in ("", "#")

    def _read_behind(self, node: ast.stmt) -> str:
        (row, column) = find_span(node)[1]
        return self._lines[row - 1].encode()[column:].decode().rstrip("\n")

    def _drop(self, run: Sequence[ast.stmt], follower: ast.stmt | None, body: Sequence[ast.stmt]) -> None:
        """Drop statements in a row; the empty lines above them stay above the follower."""
        (row, column), _ = find_lines(self._text, run[0])
        end = _find_end(run)
        gap = self._lines[end : find_first_line(follower)] if follower else []
        more = 0
        if run[0] is not body[0]:
            more = max(map(self._count_empty, run)) - sum(map(str.isspace, gap)) if follower else 0
        elif body is self._top:  # the empty lines above belong to the file
            empty = _count_leading(gap)
            end += min(empty, _count_leading(self._lines[row - 2 :: -1])) if row > 1 else empty
        self.spans.append(((row, column), (end + 1, 0), "\n" * more))

    def _count_empty(self, node: ast.stmt) -> int:
        (row, _), _ = find_lines(self._text, node)
        return sum(map(str.isspace, self._lines[row - 1 : find_first_line(node)]))

    def _replace(self, node: ast.Import | ast.ImportFrom, lines: Sequence[ImportLine]) -> None:
        start, (row, column) = find_span(node)
        if not self._is_alone(node):
            flat = "; ".join(_lay_out(line, -len(self._text)) for line in lines)
            self.spans.append((start, (row, column), flat or "pass"))
            return
        behind = self._read_behind(node)
        made = []
        for index, line in enumerate(lines):
            written = self._write(node, line) if len(lines) == 1 else _lay_out(line, node.col_offset)
            if line.unused and "#" not in behind:
                written += _NOQA
            elif not index or "noqa" in behind:
                written += behind
            made.append(written)
        end = (row, column + len(behind.encode()))
        self.spans.append((start, end, f"\n{' ' * node.col_offset}".join(made)))

    def _write(self, node: ast.Import | ast.ImportFrom, line: ImportLine) -> str:
        """Write a statement that takes another's place, in its layout where that has one."""
        code = ast.get_source_segment(self._text, node) or ""
        pairs = [(alias.name, alias.asname or alias.name) for alias in node.names]
        kept = [index for index, pair in enumerate(pairs) if pair in line.names]
        if line.names and [pairs[index] for index in kept] == list(line.names):
            moved = _FROM.sub(f"from {line.module} import", code, count=1)
            if len(kept) == len(pairs) and ("(" in code or node.col_offset + len(moved) <= LINE_LENGTH):
                return moved
            if "#" in code:
                (written,) = ast.parse(moved).body
                assert isinstance(written, ast.ImportFrom)
                return replace_spans(moved, drop_items(written.names, kept))
        return _lay_out(line, node.col_offset)


def _find_end(block: Sequence[ast.stmt]) -> int:
    """Return the last line of the last statement."""
    return block[-1].end_lineno or block[-1].lineno


def _count_leading(lines: Sequence[str]) -> int:
    """Count the empty lines at the beginning."""
    return next((index for index, line in enumerate(lines) if not line.isspace()), len(lines))


def _find_chains(node: ast.AST, chains: Mapping[tuple[str, ...], str]) -> Iterator[Span]:
    """Yield the dotted names to replace, the longest of each."""
    for child in ast.iter_child_nodes(node):
        new = chains.get(read_attribute_chain(child))
        if new is not None:
            yield (*find_span(child), new)
        else:
            yield from _find_chains(child, chains)


def _lay_out(line: ImportLine, indent: int) -> str:
    """Return the statement as ruff would lay it out."""
    if not line.names:
        parent, _, leaf = line.module.rpartition(".")
        if line.local == leaf and parent:
            return f"from {parent} import {leaf}"
        return f"import {line.module}" + (f" as {line.local}" if line.local else "")
    names = [name if name == local else f"{name} as {local}" for name, local in line.names]
    return write_import(f"from {line.module}", names, LINE_LENGTH - indent).replace("\n", f"\n{' ' * indent}")
