"""Runs that were pasted: with a terminal's prompts, with a fence around them, or as a Python list."""

from __future__ import annotations

import ast
import re

from extractor.values import readers

_MAIN_IN = re.compile(r"\bmain_(?:ppo|dapo|grpo)\b")
_PROMPT = re.compile(r"^[ \t]*[$>] ", re.MULTILINE)
# What is no Python in a notebook: commands for it, and for a shell, which a backslash continues; and cells that are
# none, but for those whose first line only says how they are run.
_COMMAND = re.compile(r"^([ \t]*)[%!](?:.*\\[ \t]*\n)*.*", re.MULTILINE)
_RUN_AS = re.compile(r"%%(?:capture|time|timeit|prun)\b.*")
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


def notebook(text: str) -> str:
    """Return the Python of a Jupyter notebook's cells, without commands for the notebook itself or a shell.

    Raises:
        ValueError: it is no notebook.
    """
    body = readers.parse_json(text)
    cells = body.get("cells") if isinstance(body, dict) else None
    if not isinstance(cells, list):
        raise ValueError("it has no cells")
    lines: list[str] = []
    for cell in cells:
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        code = "".join(map(str, source)) if isinstance(source, list) else str(source)
        code = _RUN_AS.sub("", code.lstrip(), count=1)
        if not code.startswith("%%"):
            lines += _COMMAND.sub(r"\1pass", code).splitlines()
    return "\n".join(lines) + "\n"
