"""The generated project in the current directory, run as its main.py is."""

import contextlib
import runpy
import sys
from pathlib import Path


def begin(arguments: list[str]) -> None:
    """Let the project be imported, and main.py find these arguments."""
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = ["main.py", *arguments]


def run() -> None:
    """Run main.py to its end, with what it prints on stderr."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            runpy.run_path("main.py", run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
