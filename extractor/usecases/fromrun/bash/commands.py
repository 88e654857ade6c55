"""Harmless commands whose output is known without running them."""

from __future__ import annotations

import posixpath
import re

from extractor.usecases.fromrun.bash.state import State
from extractor.usecases.fromrun.unknowns import unknowns

# Scripts for several kinds of machines look for the module of each; a project knows none of these.
_PROBE = re.compile(r"\S*python3? -c import torch_(npu|mlu|musa)\b")


def printed(words: list[str], state: State) -> str | None:
    """Return what a harmless command prints, where that can be said without running it."""
    if not words or any(unknowns(word) for word in words):
        return None
    name, arguments = words[0], words[1:]
    if name in ("true", "false", ":") or is_probe(words):
        return ""
    if name == "pwd":
        return state.variable("PWD")
    if name == "dirname" and len(arguments) == 1:
        return posixpath.dirname(arguments[0]) or "."
    if name == "basename" and arguments:
        base = posixpath.basename(arguments[0])
        return base.removesuffix(arguments[1]) if len(arguments) > 1 else base
    if name in ("realpath", "readlink") and arguments:
        return arguments[-1]
    if name == "echo":
        return " ".join(item for item in arguments if item not in ("-n", "-e"))
    return None


def is_probe(words: list[str]) -> bool:
    """Tell whether a command looks for an accelerator that a project does not run on."""
    return _PROBE.match(" ".join(words[:3])) is not None
