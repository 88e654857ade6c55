"""Helpers for libcst nodes, without the slow import of `libcst.matchers`."""

import libcst as cst


def is_import(statement: cst.CSTNode) -> bool:
    """Return True for a line that is one import statement."""
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and len(statement.body) == 1
        and isinstance(statement.body[0], (cst.Import, cst.ImportFrom))
    )


def is_docstring(statement: cst.CSTNode) -> bool:
    """Tell whether a line holds only a string."""
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and len(statement.body) == 1
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def is_method_call(node: cst.CSTNode, name: str) -> bool:
    """Return True for `anything.name(...)`."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name
