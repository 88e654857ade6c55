"""Dataset classes of before verl 0.8.0, which make messages of a row alone: verl's is told the column since."""

from __future__ import annotations

import ast

from extractor.importers.runs import templates
from extractor.values import readers

NAME, PATH, _METHOD, _COLUMN = "RLHFDataset", "verl/utils/dataset/rl_dataset.py", "_build_messages", "key"
# The module that copies import verl's class from.
MODULE = "earlier_dataset"


def text(module: str) -> str:
    """Return the text of the module, which has verl's class from another."""
    return templates.render(f"{MODULE}.py", module=module)


def extends(code: str) -> bool:
    """Tell whether code makes messages of a row alone."""
    for node in ast.walk(readers.python(code)):
        if isinstance(node, ast.FunctionDef) and node.name == _METHOD and not _takes_column(node):
            return True
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == _METHOD
        if is_call and len(node.args) + len(node.keywords) == 1:  # type: ignore[attr-defined]
            return True
    return False


def is_told(code: str) -> bool:
    """Tell whether verl's class, in a module's text, is told the column."""
    nodes = [node for node in ast.walk(readers.python(code)) if isinstance(node, ast.FunctionDef)]
    return any(node.name == _METHOD and _takes_column(node) for node in nodes)


def _takes_column(function: ast.FunctionDef) -> bool:
    return _COLUMN in {item.arg for item in (*function.args.args, *function.args.kwonlyargs)}
