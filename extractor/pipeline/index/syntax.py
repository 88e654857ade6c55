"""Helpers for Python syntax trees."""

import ast
import symtable
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from extractor.values.readers import split_lines

# A line, counted from 1, and a column in bytes.
Position = tuple[int, int]
# From where to where, and by what it is replaced.
Span = tuple[Position, Position, str]

LINE_LENGTH = 120  # as templates/base/pyproject.toml.jinja tells ruff


def read_attribute_chain(node: ast.AST) -> tuple[str, ...]:
    """Return ("a", "b", "c") for `a.b.c`, () for other expressions."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return (node.id, *reversed(parts))
    return ()


def find_first_argument(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    """Return the name of `self` or `cls`, or None."""
    if any(read_attribute_chain(decorator) == ("staticmethod",) for decorator in node.decorator_list):
        return None
    arguments = [*node.args.posonlyargs, *node.args.args]
    return arguments[0].arg if arguments else None


def list_child_statements(node: ast.If | ast.Try | ast.With | ast.For | ast.While) -> Iterator[ast.stmt]:
    """Yield statements in a compound statement's blocks, in order."""
    yield from node.body
    if isinstance(node, ast.Try):
        for handler in node.handlers:
            yield from handler.body
    if not isinstance(node, ast.With):
        yield from node.orelse
    if isinstance(node, ast.Try):
        yield from node.finalbody


def find_first_line(node: ast.stmt) -> int:
    """Return a statement's first line including decorators, counted from 0."""
    parts: list[ast.stmt | ast.expr] = [node, *getattr(node, "decorator_list", [])]
    return min(part.lineno for part in parts) - 1


def list_bound_names(node: ast.stmt, *, places: bool = False) -> Iterator[str]:
    """Yield the names that a statement binds in its module.

    With `places` also what else it assigns to, such as "a.b".
    """
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, (ast.Name, ast.Tuple, ast.List)):
                yield from (item.id for item in ast.walk(target) if isinstance(item, ast.Name))
            elif places:
                yield ast.unparse(target)
    elif isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
        for child in list_child_statements(node):
            yield from list_bound_names(child, places=places)


def list_definitions(
    body: Iterable[ast.stmt], above: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    """Yield functions, classes and their members by name: "Class.method"."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield f"{above}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from list_definitions(node.body, f"{above}{node.name}.")


def write_import(start: str, names: Sequence[str], width: int = LINE_LENGTH) -> str:
    """Write "from a import b, c" as ruff does: too long, one name a line."""
    flat = f"{start} import {', '.join(names)}"
    if len(flat) <= width:
        return flat
    return f"{start} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def find_span(node: ast.AST) -> tuple[Position, Position]:
    """Return where a node's text begins and ends."""
    assert isinstance(node, (ast.expr, ast.stmt, ast.keyword, ast.alias))
    return (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)


def find_lines(text: str, node: ast.stmt) -> tuple[Position, Position]:
    """Return where a statement's lines are, with the comments and empty lines above it.

    What stands above the first statement of a file belongs to the file.
    """
    lines, first = split_lines(text), find_first_line(node)
    while first and (not (bare := lines[first - 1].lstrip()) or _is_comment(lines[first - 1], bare, node.col_offset)):
        first -= 1
    first = first or find_first_line(node)
    return (first + 1, 0), ((node.end_lineno or node.lineno) + 1, 0)


def _is_comment(line: str, bare: str, indent: int) -> bool:
    return bare.startswith("#") and len(line) - len(bare) == indent


def is_docstring(node: ast.stmt) -> bool:
    """Tell whether a statement is a string alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def replace_spans(text: str, spans: Iterable[Span]) -> str:
    """Replace parts of a text that do not overlap."""
    data, starts = text.encode(), [0, *accumulate(len(line.encode()) for line in split_lines(text))]
    for (row, column), (last, end), new in sorted(spans, reverse=True):
        data = data[: starts[row - 1] + column] + new.encode() + data[starts[last - 1] + end :]
    return data.decode()


def drop_items(items: Sequence[ast.AST], kept: Sequence[int]) -> list[Span]:
    """Return what to cut so that only some items of a list stay, at least one."""
    places, last = list(map(find_span, items)), kept[-1]
    spans = [(places[index][0], places[index + 1][0], "") for index in range(last) if index not in kept]
    return [*spans, (places[last][1], places[-1][1], "")] if last + 1 < len(places) else spans


def is_main_guard(node: ast.stmt) -> bool:
    """Return True for `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and any(
        isinstance(item, ast.Name) and item.id == "__name__" for item in ast.walk(node.test)
    )


def find_global_names(text: str, path: str, bound: frozenset[str] = frozenset()) -> set[str]:
    """Return the global names that a statement reads, builtins included.

    Args:
        text: The statement.
        path: Of its file, for messages.
        bound: Names that the body of a class binds outside `text`: what reads them there does not read the module's.
    """
    table = symtable.symtable(text, path, "exec")
    found = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    pending = list(table.get_children())
    while pending:
        child = pending.pop()
        names = {symbol.get_name() for symbol in child.get_symbols() if symbol.is_global()}
        found |= names - bound if child.get_type() == "class" else names
        pending.extend(child.get_children())
    return found
