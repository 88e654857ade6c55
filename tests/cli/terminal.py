"""Running `vextract` in a real terminal of the operating system's."""

import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Iterable
from pathlib import Path

from tests.project.support import REPOSITORY

ROWS = 24


def in_terminal(*arguments: str, cwd: Path = REPOSITORY, answers: Iterable[str] = ()) -> list[str]:
    """Run a command in a terminal of ROWS rows; return what it prints there, line by line.

    Args:
        answers: Typed one by one, wherever a question ends in ": ".
    """
    pid, terminal = pty.fork()
    if pid == 0:
        # The child does nothing before the terminal has its size.
        os.read(0, 1)
        os.chdir(cwd)
        settings = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        settings |= {"TERM": "xterm", "NO_COLOR": "1", "PYTHONPATH": str(REPOSITORY)}
        os.execve(sys.executable, [sys.executable, "-m", "extractor", *arguments], settings)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, 200, 0, 0))
    os.write(terminal, b"\n")
    data, seen, typed = b"", 0, iter(answers)
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # what Linux says at the end
            break
        if not piece:
            break
        data += piece
        if data[seen:].endswith(b": ") and (answer := next(typed, None)) is not None:
            seen = len(data)
            os.write(terminal, f"{answer}\n".encode())
    os.close(terminal)
    shown = data.decode()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    return shown.replace("\r\n", "\n").removeprefix("\n").rstrip("\n").split("\n")
