"""`vextract new` in a terminal, where it asks; a real one, of the operating system's."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from extractor.project import lock

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals")
REPOSITORY = Path(__file__).resolve().parents[2]

CTRL_C = "\x03"
# Seconds of silence, and how many of them until the program is taken to hang.
PATIENCE, SILENCES = 3.0, 40


def converse(directory: Path, arguments: Sequence[str], answers: Sequence[str]) -> tuple[int, str]:
    """Run `vextract` in a terminal and type an answer at each question: the exit code, and what the terminal shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(directory)
        settings = {"TERM": "dumb", "NO_COLOR": "1", "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200"}
        os.execve(sys.executable, [sys.executable, "-m", "extractor", *arguments], {**os.environ, **settings})
    shown, waiting = "", list(answers)
    unread, silent, last = "", 0, ""
    while True:
        if not select.select([terminal], [], [], PATIENCE)[0]:
            silent += 1
            if silent > SILENCES:
                os.kill(pid, signal.SIGKILL)
            elif last == CTRL_C:
                # Between showing a question and reading the answer Python takes note of the key, and then reads: the
                # next key wakes it. A person would press it again, too.
                os.write(terminal, last.encode())
            continue
        silent = 0
        try:
            text = os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # what Linux says at the end
            break
        if not text:
            break
        shown, unread = shown + text, unread + text
        if waiting and unread.endswith(": "):
            unread, last = "", waiting.pop(0)
            os.write(terminal, last.encode())
        elif unread.strip("^C \r\n"):
            last = ""  # it has been heard
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.replace("\r\n", "\n")


@pytest.mark.usefixtures("verl")
def test_answers_make_a_project(tmp_path: Path) -> None:
    """A name that will not do, a choice that there is not, and defaults."""
    answers = ["torch\n", "\n", "0.6.1\n", "vlm\n", "\n", "rloo\n", "gsm8k\n"]
    code, shown = converse(tmp_path, ["new", "--with", "lora"], answers)
    assert code == 0, shown
    assert "'torch' cannot be the package's name" in shown
    made = lock.read(tmp_path / "torch").options
    assert (made.package, made.verl, made.engine, made.algorithm) == ("my_torch", "0.6.1", "hf", "rloo")
    assert (made.recipe, made.features) == ("gsm8k", ("hub", "lora", "math", "reward_processes", "reward_rules"))
    command = (
        "vextract new torch --package my_torch --verl 0.6.1 --engine hf --algorithm rloo --recipe gsm8k --with lora"
    )
    assert f"the same without questions: `{command}`" in shown


@pytest.mark.usefixtures("verl")
def test_what_the_command_line_says_is_not_asked(tmp_path: Path) -> None:
    arguments = [
        "new",
        "--verl",
        "0.6.1",
        "--engine",
        "hf",
        "--algorithm",
        "grpo",
        "--recipe",
        "toy",
        "--dry-run",
        "-v",
    ]
    code, shown = converse(tmp_path, arguments, ["a place/my-proj\n"])
    assert code == 0, shown
    assert shown.count("Directory of the project") == 1
    assert not any(question in shown for question in ("Release of verl", "Rollout engine", "Algorithm", "Recipe"))
    assert "my_proj/vendored/algorithms/core_algos.py" in shown
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "Ctrl-D"])
@pytest.mark.parametrize("before", [[], ["toy\n"]], ids=["at once", "later"])
def test_leaving(tmp_path: Path, key: str, before: list[str]) -> None:
    code, shown = converse(tmp_path, ["new"], [*before, key])
    assert code == 130, shown
    assert "error: interrupted" in shown
    assert "Traceback" not in shown
    assert os.listdir(tmp_path) == []
