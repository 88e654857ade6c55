"""Reports in a terminal: the verdict and one screen first, no line wider than it, the rest with -v."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
from pathlib import Path

import pytest

from extractor.cli import output, screen

ROWS = 24
REPORTS = [
    ("versions",),
    ("graph", "PROJECT"),
    ("status", "PROJECT"),
    ("diff", "--stat", "PROJECT"),
    ("explain", "toy/vendored/algorithms/core_algos.py", "PROJECT"),
    ("sync", "PROJECT", "--dry-run"),
    ("upgrade", "PROJECT", "--dry-run", "--to", "0.7.1"),
]


def in_terminal(columns: int, *arguments: str) -> list[str]:
    """Run `vextract` in a terminal of this width and 24 rows; what it prints there, line by line."""
    pid, terminal = pty.fork()
    if pid == 0:
        # The child does nothing before the terminal has its size.
        os.read(0, 1)
        settings = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        settings |= {"TERM": "xterm", "NO_COLOR": "1"}
        os.execve(sys.executable, [sys.executable, "-m", "extractor", *arguments], settings)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    os.write(terminal, b"\n")
    data = b""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not piece:
            break
        data += piece
    assert os.waitpid(pid, 0)[1] == 0
    return data.decode().replace("\r\n", "\n").removeprefix("\n").rstrip("\n").split("\n")


@pytest.fixture
def edited(project: Path) -> Path:
    """A project in which every file has an edit, or is gone, and with many files of its owner's."""
    for path in sorted(project.rglob("*.py")):
        path.write_text(f"{path.read_text(encoding='utf-8')}# mine\n", encoding="utf-8")
    for number in range(40):
        (project / f"toy/mine_{number}_{'x' * 60}.py").write_text("", encoding="utf-8")
    for path in sorted((project / "config/preset").iterdir()):
        path.unlink()
    return project


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_reports_fit_the_screen(edited: Path, columns: int) -> None:
    for report in REPORTS if columns == 80 else REPORTS[:4]:
        lines = in_terminal(columns, *(str(edited) if item == "PROJECT" else item for item in report))
        # One row is the prompt's.
        assert len(lines) < ROWS, (report, lines)
        assert max(map(len, lines)) <= columns, (report, lines)


def test_what_does_not_fit_is_counted_and_shown_on_demand(run, edited: Path) -> None:
    short, whole = run("status", edited).out.splitlines(), run("status", edited, "-v").out.splitlines()
    assert len(short) < ROWS < len(whole)
    assert short[:2] == whole[:2]
    hidden = sum(int(line.split(" more (-v")[0].split()[-1]) for line in short if "more (-v shows all)" in line)
    shown = [line for line in short if "(-v shows all)" not in line]
    assert set(shown) <= set(whole)
    assert len(shown) + hidden == len(whole)


@pytest.mark.parametrize(
    "sizes", [(), (1,), (30,), (3, 50), (50, 3), (9, 9, 9), (1, 1, 1, 1, 60), (40,) * 9, (2,) * 30]
)
@pytest.mark.parametrize("room", [3, 8, 20])
def test_sections_share_the_room(sizes: tuple[int, ...], room: int) -> None:
    sections = [
        screen.Section([f"  {number}.{line}" for line in range(size)], f"section {number}:")
        for number, size in enumerate(sizes)
    ]
    lines = screen._fitted(sections, room)
    assert len(lines) <= max(room, 3 + 1)
    whole = [line for section in sections for line in (section.title, *section.lines)]
    if len(whole) <= room:
        assert lines == whole
    else:
        assert any("-v shows all" in line for line in lines)
        # What matters most is there.
        assert lines[:2] == whole[:2]


def test_wrapping() -> None:
    line = "reported  coverage  the cases ran 61% of the lines of the functions in 45 vendored files, in 216 of 338"
    for width in (40, 60, 80):
        pieces = screen.wrapped([line], width)
        assert max(map(len, pieces)) <= width
        assert " ".join(piece.strip() for piece in pieces).split() == line.split()
    assert screen.wrapped([line], 60)[1].startswith(" " * 20)
    assert screen.wrapped([line], None) == [line]
    assert screen.cut("a path that is long", 10) == "a path th…"


def test_a_terminal_obeys_nothing_that_a_project_holds(project: Path) -> None:
    """Neither the name of a file nor a line in it sets the terminal's title, clears it, or turns text around."""
    orders = "\x1b]0;title\x07\x1b[2J\x9b2J\u202e"
    (project / f"toy/custom/{orders}.py").write_text("", encoding="utf-8")
    changed = project / "main.py"
    changed.write_text(f"{changed.read_text(encoding='utf-8')}# {orders}\r\n", encoding="utf-8", newline="")
    for report in (("status",), ("diff", "--no-pager"), ("graph", "-v")):
        shown = "\n".join(in_terminal(200, report[0], str(project), *report[1:]))
        assert not any(order in shown for order in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\u202e")), report
        assert r"\x1b]0;title\x07\x1b[2J\x9b2J\u202e" in shown, report


def test_other_letters_stay_as_they_are() -> None:
    text = "größe 模型 🙂 a\tb\n\u00a0c"
    assert output.plain(text) == text
