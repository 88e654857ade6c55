"""Dataset classes of before verl 0.8.0, which make messages of a row alone: verl's is told the column since."""

from __future__ import annotations

import ast

from extractor.values import readers

NAME, PATH, _METHOD, _COLUMN = "RLHFDataset", "verl/utils/dataset/rl_dataset.py", "_build_messages", "key"
# The module that copies import verl's class from.
MODULE = "earlier_dataset"
_TEXT = '''# vextract:hook  yours: written once, never touched by an upgrade
"""verl's dataset, as a class that was written for it before verl 0.8.0 extends it: messages are made of a row alone."""

import functools
import inspect
from typing import Any

from {module} import RLHFDataset as _RLHFDataset


class RLHFDataset(_RLHFDataset):
    """verl's, whose `_build_messages` need not be told the column, nor take it where a class has its own."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        own = cls.__dict__.get("_build_messages")
        if own is not None and "key" not in inspect.signature(own).parameters:

            @functools.wraps(own)
            def built(self: Any, example: Any, key: str | None = None) -> Any:
                return own(self, example)

            cls._build_messages = built

    def _build_messages(self, example: dict, key: str | None = None) -> Any:
        return super()._build_messages(example, key or self.prompt_key)
'''


def text(module: str) -> str:
    """Return the text of the module, which has verl's class from another."""
    return _TEXT.format(module=module)


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
