"""`vextract new` asks in a terminal, a real one of the operating system's, for what it was not given."""

import os
import sys
from pathlib import Path

import pytest

from extractor.project import lock

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals")
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.usefixtures("verl")
def test_a_project_is_made_of_the_answers(tmp_path: Path) -> None:
    answers = ["mine\n", "\n", "nosuch\n", "rloo\n", "\n"]  # the third is asked for again
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        settings = {"TERM": "dumb", "NO_COLOR": "1", "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200"}
        os.execve(sys.executable, [sys.executable, "-m", "extractor", "new"], {**os.environ, **settings})
    shown, unread = "", ""
    while True:
        try:
            text = os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # what Linux says at the end
            break
        shown, unread = shown + text, unread + text
        if answers and unread.endswith(": "):
            unread = ""
            os.write(terminal, answers.pop(0).encode())
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    assert "the same without questions: `vextract new mine --engine hf --algorithm rloo --recipe toy`" in shown
    options = lock.read(tmp_path / "mine").options
    assert (options.package, options.engine, options.algorithm, options.recipe) == ("mine", "hf", "rloo", "toy")
