"""Runs that were pasted: with a terminal's prompts, with a fence around them, or as a Python list."""

from __future__ import annotations

import ast
import re

from extractor.values import readers

_MAIN_IN = re.compile(r"\bmain_(?:ppo|dapo|grpo)\b")
_PROMPT = re.compile(r"^[ \t]*[$>] ", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*```\w*[ \t]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


def script(text: str) -> str:
    """Return a script as it was before it was pasted: without a fence around it, and without a terminal's prompts."""
    fenced = next((body for body in _FENCE.findall(text) if _MAIN_IN.search(body)), None)
    text = text if fenced is None else fenced
    return _PROMPT.sub("", text) if re.search(r"^[ \t]*\$ \S", text, re.MULTILINE) else text


def listed(text: str) -> list[str] | None:
    """Return the overrides of a Python list, perhaps with a name; None for any other text."""
    match = re.fullmatch(r"\s*(?:\w+\s*=\s*)?(\[.*\])\s*", text, re.DOTALL)
    tree = None if match is None else readers.expression(match[1])
    if not isinstance(tree, ast.List):
        return None
    items = [item.value for item in tree.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return items if len(items) == len(tree.elts) else None
