# vextract:template base/__package__/output.py - edit freely
"""Print for a reader that may leave early, and commands that run as they are printed."""

import os
import shlex
import shutil
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


def say(text: str) -> None:
    """Print to stdout. One that takes no more ends no run: the rest is discarded."""
    try:
        print(text, flush=True)
    except UnicodeEncodeError:  # a log file in ASCII, say
        print(text.encode("ascii", "backslashreplace").decode(), flush=True)
    except (OSError, ValueError):  # such as a full disk, or `head`, which has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - to the end of the process


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


def same_command(*words: str) -> str:
    """Say what to add to the command that was given."""
    return f"the same command with {' '.join(map(shlex.quote, words))}"


def install_command(*requirements: str) -> str:
    """Write the shell command that installs packages where this interpreter finds them."""
    return " ".join([python_command(), "-m pip install", *map(shlex.quote, requirements)])
