# vextract:template base/__package__/output.py - edit freely
"""Print for a reader that may leave early, and commands that run as they are printed."""

import importlib.metadata
import os
import shlex
import shutil
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


def say(text: str) -> None:
    """Print to stdout. A reader that has left, as `head` does, is not an error: what follows is discarded."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def module_command(module: str) -> str:
    """Write the shell command that runs a module of this package with the interpreter that runs now."""
    here = Path.cwd()
    python = Path(sys.executable)
    found = shutil.which("python")
    if python.is_relative_to(here):
        name = str(python.relative_to(here))
    elif found is not None and Path(found) == python:
        name = "python"
    else:
        name = str(python)
    package = __name__.partition(".")[0]
    path = "" if here == PROJECT or _is_installed(package) else f"PYTHONPATH={shlex.quote(str(PROJECT))} "
    return f"{path}{shlex.quote(name)} -m {package}.{module}"


def _is_installed(package: str) -> bool:
    """Tell whether Python finds a package from any directory; otherwise it does so from the project's only."""
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
