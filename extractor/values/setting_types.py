"""What a project's own `settings/setting_types.py` says of its settings."""

from __future__ import annotations

import ast
from typing import Any

PATH = "settings/setting_types.py"


def types_and_words(tree: ast.AST) -> tuple[dict[str, str], dict[str, tuple[Any, ...]]]:
    """Return the types of settings that are null unless they are given, and the words of those that have some.

    A type of several, and words that a name stands for, are left out.

    Args:
        tree: Of the module.
    """
    kinds: dict[str, str] = {}
    words: dict[str, tuple[Any, ...]] = {}
    for table in (node for node in ast.walk(tree) if isinstance(node, ast.Dict)):
        for key, value in zip(table.keys, table.values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                continue
            if isinstance(value, ast.Name):
                kinds[key.value] = value.id
            elif isinstance(value, ast.Tuple) and all(isinstance(item, ast.Constant) for item in value.elts):
                words[key.value] = ast.literal_eval(value)
    return kinds, words
