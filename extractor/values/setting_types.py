"""What a project's own `settings/shipped_settings.py` says of its settings."""

from __future__ import annotations

import ast
from typing import Any

PATH = "settings/shipped_settings.py"


def types_and_words(tree: ast.AST) -> tuple[dict[str, str], dict[str, tuple[Any, ...]]]:
    """Return the types of settings that are null unless they are given, and the words of those that have some.

    A type of several is left out.

    Args:
        tree: Of the module.
    """
    kinds: dict[str, str] = {}
    words: dict[str, tuple[Any, ...]] = {}
    for table in (node for node in ast.walk(tree) if isinstance(node, ast.Dict)):
        for key, value in zip(table.keys, table.values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Call)):
                continue
            given = {item.arg: item.value for item in value.keywords}
            types = given.get("null_or")
            if isinstance(types, ast.Tuple) and len(types.elts) == 1 and isinstance(types.elts[0], ast.Name):
                kinds[key.value] = types.elts[0].id
            if "values" in given:
                words[key.value] = ast.literal_eval(given["values"])
    return kinds, words
