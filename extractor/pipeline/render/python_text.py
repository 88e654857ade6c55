"""Write values as Python text, laid out as ruff would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

_LENGTH = 120


@dataclass(frozen=True)
class Name:
    """A name that stands as it is, such as that of a type."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call with keyword arguments."""

    function: str
    arguments: Mapping[str, object]


def python_text(value: object, before: str = "", indent: int = 0, after: str = "") -> str:
    """Write a value.

    Args:
        value: A text, number, bool, None, tuple, dict, `Name` or `Call`.
        before: What stands before it on its line.
        indent: Of that line, in spaces.
        after: What follows it on its line.

    Returns:
        The lines, with what stands before and after.
    """
    margin = " " * indent
    line = f"{margin}{before}{_flat(value)}{after}"
    if len(line) <= _LENGTH and not (
        isinstance(value, dict) and any(isinstance(part, dict) for part in value.values())
    ):
        return line
    if isinstance(value, tuple) and value:
        opened, closed, inside = "(", ")", [("", item) for item in value]
    elif isinstance(value, dict) and value:
        opened, closed, inside = "{", "}", [(f"{_flat(key)}: ", item) for key, item in value.items()]
    elif isinstance(value, Call):
        opened, closed = f"{value.function}(", ")"
        inside = [(f"{name}=", item) for name, item in value.arguments.items()]
    elif before.endswith(": "):
        return f"{margin}{before}(\n{margin}    {_flat(value)}\n{margin}){after}"
    else:
        return line
    body = "\n".join(python_text(item, start, indent + 4, ",") for start, item in inside)
    return f"{margin}{before}{opened}\n{body}\n{margin}{closed}{after}"


def _flat(value: object) -> str:
    if isinstance(value, Name):
        return value.text
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        return f"({', '.join(map(_flat, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flat(key)}: {_flat(item)}' for key, item in value.items())}}}"
    if isinstance(value, Call):
        return f"{value.function}({', '.join(f'{name}={_flat(item)}' for name, item in value.arguments.items())})"
    return repr(value)
