"""Quote what is printed for a shell."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def in_shell(path: Path | str) -> str:
    """Quote a path, so that a shell takes it for one word and no command for an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def installing(*requirements: str) -> str:
    """Return the command that installs packages where vextract runs, which need not be where a bare `pip` does."""
    return " ".join(map(shlex.quote, (sys.executable, "-m", "pip", "install", *requirements)))
