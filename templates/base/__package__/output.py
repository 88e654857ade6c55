# vextract:template - edit freely
"""Print for a reader that may leave early, and commands that run as they are printed."""

import io
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]


def say(text: str) -> None:
    """Print to stdout. One that a hook has closed ends no run: a warning says so, and the rest is discarded."""
    try:
        print(text, flush=True)
    except ValueError as error:
        if not sys.stdout.closed:  # it does not know a character
            raise
        print(f"warning: stdout takes no more: {error}", file=sys.stderr)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - to the end of the process


def settle_streams() -> None:
    """Have a program go on when whoever read its output has left, as `head` does."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if type(stream) is io.TextIOWrapper and stream is getattr(sys, f"__{name}__") and not stream.isatty():
            stream.flush()
            kept = {key: getattr(stream, key) for key in ("encoding", "errors", "line_buffering", "write_through")}
            raw: Any = _Pipe(number, "wb", closefd=False)
            setattr(sys, name, io.TextIOWrapper(raw if stream.write_through else io.BufferedWriter(raw), **kept))


class _Pipe(io.FileIO):
    """What a process writes its output to; nothing fails when its reader has left or its disk is full."""

    warned = False

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            if not self.warned and self.fileno() == 1 and not isinstance(error, BrokenPipeError):
                self.warned = True
                print(f"warning: stdout takes no more: {error.strerror}", file=sys.stderr)
            return memoryview(data).nbytes


def python_command() -> str:
    """Write the interpreter that runs now as a shell starts it from here."""
    python, here = Path(sys.executable), Path.cwd()
    if shutil.which("python") == str(python) and not python.is_relative_to(here):
        return "python"
    return shlex.quote(str(python.relative_to(here) if python.is_relative_to(here) else python))


def main_command(*words: str) -> str:
    """Write the shell command that trains with these words."""
    script = "main.py" if Path.cwd() == PROJECT else str(PROJECT / "main.py")
    return " ".join([python_command(), *map(shlex.quote, (script, *words))])


def install_command(*requirements: str) -> str:
    """Write the shell command that installs packages where this interpreter finds them."""
    return " ".join([python_command(), "-m pip install", *map(shlex.quote, requirements)])


def module_command(module: str) -> str:
    """Write the shell command that runs a module of this package with the interpreter that runs now."""
    path = "" if Path.cwd() == PROJECT else f"PYTHONPATH={shlex.quote(str(PROJECT))}:$PYTHONPATH "
    return f"{path}{python_command()} -m {__name__.partition('.')[0]}.{module}"
