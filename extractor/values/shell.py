"""What is printed to be copied into a shell."""

from __future__ import annotations

import shlex
from pathlib import Path


def in_shell(path: Path | str) -> str:
    """Quote a path, so that a shell takes it for one word and no command for an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
