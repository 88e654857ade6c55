"""Indent Python by another number of columns."""

import ast
import inspect
import io
import tokenize

import libcst as cst

from extractor.values import readers


def reindent(text: str, width: int = 4) -> str:
    """Return a module with other indentation; unchanged if that fails.

    Lines of a statement below its first, and comments, move with it; texts over several lines stay as they are, but
    for docstrings.

    Args:
        text: Of a whole module, with line feeds.
        width: Columns.
    """
    try:
        if _is_indented(text, width):
            return text
        module = cst.parse_module(text)
        moved = module.visit(_Reindent(module.default_indent, width)).with_changes(default_indent=" " * width).code
        return moved if _dump_without_indents(moved) == _dump_without_indents(text) else text
    except (tokenize.TokenError, SyntaxError, cst.ParserSyntaxError):
        return text


def _is_indented(text: str, width: int) -> bool:
    """Tell whether each block is indented by so many columns."""
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        depth += (token.type == tokenize.INDENT) - (token.type == tokenize.DEDENT)
        if token.type == tokenize.INDENT and token.string != " " * width * depth:
            return False
    return True


class _Reindent(cst.CSTTransformer):
    """Gives every block the module's indentation, and moves docstrings along."""

    def __init__(self, default: str, width: int) -> None:
        super().__init__()
        self._default, self._width = default, width
        self._above: list[str] = []  # the indentation of each open block, beyond that of the one around it

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        self._above.append(self._default if node.indent is None else node.indent)

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock) -> cst.BaseSuite:
        self._above.pop()
        return updated_node.with_changes(indent=None)

    def leave_Expr(self, original_node: cst.Expr, updated_node: cst.Expr) -> cst.Expr:
        if not isinstance(updated_node.value, cst.SimpleString):
            return updated_node
        move = self._width * len(self._above) - _measure_column("".join(self._above))
        first, *rest = updated_node.value.value.split("\n")
        if any(line.strip() and _measure_column(line) < -move for line in rest):
            return updated_node
        moved = "\n".join((first, *(_move_line(line, move) for line in rest)))
        return updated_node.with_changes(value=cst.SimpleString(moved))


def _measure_column(line: str) -> int:
    return len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs())


def _move_line(line: str, columns: int) -> str:
    bare = line.lstrip(" \t")
    return " " * (_measure_column(line) + columns) + bare if columns and bare.strip() else line


def _dump_without_indents(text: str) -> str:
    """Return what a module says, whatever the indentation of its docstrings."""
    tree = readers.parse_python(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value = ast.Constant(inspect.cleandoc(node.value.value))
    return ast.dump(tree)
