"""Find runs inside fences, terminal prompts and a job's YAML."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

# What launches a run, of verl's, EasyR1's or TRL's.
_LAUNCH = re.compile(r"\b(?:main_(?:ppo|dapo|grpo)|verl\.trainer\.main|trl (?:grpo|rloo)|accelerate launch)\b")
_PROGRAM = re.compile(r"^[ \t$>]*(?:\w+=\S* )*(?:\S*/)?(?:python[\d.]*|torchrun|uv run)\b.*\.py\b", re.MULTILINE)
_PYTHON = re.compile(r"(?:\S*/)?python[\d.]*")
_ENVIRONMENT = ("envs", "env", "environment")
_PROMPT = re.compile(r"^[ \t]*[$>] ", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*```\w*[ \t]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


def read_pasted_script(text: str) -> str:
    """Return a pasted script without fences and terminal prompts.

    Of several fences those count that launch a run or, if none does, start a program; lines keep their numbers.
    """
    fences = [*_FENCE.finditer(text)]
    fenced = [found for found in fences if _LAUNCH.search(found[1])]
    fenced = fenced or [found for found in fences if _PROGRAM.search(found[1])]
    if fenced:
        lines = [""] * (text.count("\n") + 1)
        for found in fenced:
            first, inside = text.count("\n", 0, found.start(1)), found[1].splitlines()
            lines[first : first + len(inside)] = inside
        text = "\n".join(lines)
    return _PROMPT.sub("", text) if re.search(r"^[ \t]*\$ \S", text, re.MULTILINE) else text


def starts_python(text: str) -> bool:
    """Tell whether a text has a command that runs Python."""
    return any(_PYTHON.fullmatch(word) for line in text.splitlines() for word in line.split())


def read_job(body: Any, text: str) -> tuple[str, dict[str, str]] | None:
    """Return a job YAML's script and its variables, or None.

    Args:
        body: What is in the file.
        text: The file's. The script's lines have the numbers that they have there, where they stand there as they are.
    """
    texts = [*_list_texts(body)]
    found = next((item for which in (_LAUNCH, _PROGRAM) for item in texts if which.search(item)), None)
    if found is None or not isinstance(body, Mapping):
        return None
    found = re.sub(r"\$\$(?=[A-Za-z_{(])", "$", found)  # as a job's tool hands it to the shell
    given = next((body[name] for name in _ENVIRONMENT if name in body), None)
    pairs = given.items() if isinstance(given, Mapping) else [str(item).partition("=")[::2] for item in given or ()]
    variables = {str(name): str(value) for name, value in pairs if isinstance(value, str | int | float) and value != ""}
    first = next(line.strip() for line in found.splitlines() if line.strip())
    before = [line.strip() for line in text.splitlines()]
    return "\n" * (before.index(first) if first in before else 0) + found, variables


def _list_texts(body: Any) -> Iterator[str]:
    """Yield the texts in a YAML body that may be scripts."""
    if isinstance(body, str):
        yield body
    elif isinstance(body, list) and body and all(isinstance(item, str) for item in body):
        yield shlex.join(body) if any(map(_PYTHON.fullmatch, body)) else "\n".join(body)
    elif isinstance(body, list | Mapping):
        for item in body.values() if isinstance(body, Mapping) else body:
            yield from _list_texts(item)
