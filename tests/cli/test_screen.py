"""Reports: the verdict and one screen first, the rest with -v; what a terminal obeys is escaped."""

from pathlib import Path

import pytest

from extractor.cli import output, screen
from tests.cli.terminal import ROWS, in_terminal


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


def test_what_does_not_fit_is_counted_and_shown_on_demand(run, edited: Path) -> None:
    short, whole = run("status", edited).out.splitlines(), run("status", edited, "-v").out.splitlines()
    assert len(short) < ROWS < len(whole)
    assert short[:2] == whole[:2]
    hidden = sum(int(line.split(" more (-v")[0].split()[-1]) for line in short if "more (-v shows all)" in line)
    shown = [line for line in short if "(-v shows all)" not in line]
    assert set(shown) <= set(whole)
    assert len(shown) + hidden == len(whole)


SIZES = ((), (1,), (30,), (3, 50), (50, 3), (9, 9, 9), (1, 1, 1, 1, 60), (40,) * 9, (2,) * 5)


def test_sections_share_the_room(capsys: pytest.CaptureFixture[str]) -> None:
    for sizes in SIZES:
        sections = [
            screen.Section([f"  {number}.{line}" for line in range(size)], f"section {number}:")
            for number, size in enumerate(sizes)
        ]
        screen.show(["head"], sections, ["tail"], verbose=False)
        head, *lines, tail = capsys.readouterr().out.splitlines()
        assert (head, tail) == ("head", "tail")
        assert len(lines) <= max(screen.ROWS, 3 * len(sizes)), sizes
        whole = [line for section in sections for line in (section.title, *section.lines)]
        assert lines[:2] == whole[:2]
        hidden = [int(line.split()[1]) for line in lines if line.endswith("more (-v shows all)")]
        assert len(lines) - len(hidden) + sum(hidden) == len(whole), sizes
        assert not hidden or len(whole) > 20


def test_a_terminal_obeys_nothing_that_a_project_holds(project: Path) -> None:
    """Neither the name of a file nor a line in it sets the terminal's title, clears it, or turns text around."""
    orders = "\x1b]0;title\x07\x1b[2J\x9b2J\u202e"
    (project / f"toy/custom/{orders}.py").write_text("", encoding="utf-8")
    changed = project / "main.py"
    changed.write_text(f"{changed.read_text(encoding='utf-8')}# {orders}\r\n", encoding="utf-8", newline="")
    for report in (("status",), ("diff",)):
        shown = "\n".join(in_terminal(report[0], str(project), *report[1:]))
        assert not any(order in shown for order in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\u202e")), report
        assert r"\x1b]0;title\x07\x1b[2J\x9b2J\u202e" in shown, report
    text = "größe 模型 🙂 a\tb\n\u00a0c"
    assert output.make_plain(text) == text
