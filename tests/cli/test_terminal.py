"""In a real terminal: questions, one screen of a report, and nothing that it obeys."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Iterable
from pathlib import Path

import pytest

from extractor.cli import output, screen
from extractor.project import lock
from tests.project.support import REPOSITORY


def in_terminal(*arguments: str, cwd: Path = REPOSITORY, answers: Iterable[str] = ()) -> str:
    """Run `vextract` in a terminal, typing an answer wherever a question ends in ": "; return what it prints there."""
    pid, terminal = pty.fork()
    if pid == 0:
        # The child does nothing before the terminal has its size.
        os.read(0, 1)
        os.chdir(cwd)
        settings = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        settings |= {"TERM": "xterm", "NO_COLOR": "1", "PYTHONPATH": str(REPOSITORY)}
        os.execve(sys.executable, [sys.executable, "-m", "extractor", *arguments], settings)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
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
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, data
    return data.decode()


@pytest.mark.usefixtures("verl")
def test_a_project_is_made_of_the_answers(tmp_path: Path) -> None:
    shown = in_terminal("new", cwd=tmp_path, answers=["mine", "", "nosuch", "rloo", ""])  # the third is asked for again
    assert "the same without questions: `vextract new mine --engine hf --algorithm rloo --recipe toy`" in shown
    options = lock.read(tmp_path / "mine").options
    assert (options.package, options.engine, options.algorithm, options.recipe) == ("mine", "hf", "rloo", "toy")


SIZES = ((), (1,), (30,), (3, 50), (9, 9, 9), (1, 1, 1, 1, 60), (40,) * 9)


def test_what_does_not_fit_is_counted_and_shown_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    for sizes in SIZES:
        sections = [
            screen.Section([f"  {number}.{line}" for line in range(size)], f"section {number}:")
            for number, size in enumerate(sizes)
        ]
        screen.show(screen.Answer(None, ["head"], sections, ["tail"]), verbose=True)
        whole = capsys.readouterr().out.splitlines()
        screen.show(screen.Answer(None, ["head"], sections, ["tail"]), verbose=False)
        lines = capsys.readouterr().out.splitlines()
        assert (lines[:3], lines[-1]) == (whole[:3], "tail")
        assert len(lines) <= max(screen.ROWS, 3 * len(sizes) + 2), sizes
        hidden = [int(line.split()[1]) for line in lines if line.endswith("more (-v shows all)")]
        assert len(lines) - len(hidden) + sum(hidden) == len(whole), sizes
    listed = screen.Section([f"  {number}" for number in range(40)], "to change", whole=True)
    screen.show(screen.Answer(None, ["head"], [*sections, listed]), verbose=False)
    assert len([line for line in capsys.readouterr().out.splitlines() if re.fullmatch("  [0-9]+", line)]) == 40


def test_a_terminal_obeys_nothing_that_a_project_holds(project: Path) -> None:
    """Neither the name of a file nor a line in it sets the terminal's title, clears it, or turns text around."""
    orders = "\x1b]0;title\x07\x1b[2J\x9b2J\u202e"
    (project / f"toy/custom/{orders}.py").write_text("", encoding="utf-8")
    changed = project / "main.py"
    changed.write_text(f"{changed.read_text(encoding='utf-8')}# {orders}\r\n", encoding="utf-8", newline="")
    for report in (("status",), ("diff",), ("graph", "-v")):
        shown = in_terminal(report[0], str(project), *report[1:])
        assert not any(order in shown for order in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\u202e")), report
        assert r"\x1b]0;title\x07\x1b[2J\x9b2J\u202e" in shown, report
    text = "größe 模型 🙂 a\tb\n\u00a0c"
    assert output.make_plain(text) == text
