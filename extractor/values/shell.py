"""Quote what is printed for a shell."""

import shlex
import sys
from pathlib import Path


def quote_for_shell(path: Path | str) -> str:
    """Quote a path as one word that is no option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def write_pip_command(*requirements: str) -> str:
    """Return the pip command for vextract's own Python."""
    return " ".join(map(shlex.quote, (sys.executable, "-m", "pip", "install", *requirements)))
