"""A run in a real terminal of several widths: the table, its clock, and what is printed meanwhile."""

import io
import re
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.project.running import environment, overrides
from tests.project.support import PACKAGE, Configuration, Maker, copy_of
from tests.releases import NEWEST

pytestmark = pytest.mark.slow
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PATIENCE = 90.0  # seconds for what comes at once, on a machine that is busy


class Terminal(pexpect.spawn):  # type: ignore[misc]
    """A program in a pseudo-terminal, and all that it has shown."""

    def __init__(self, root: Path, arguments: Sequence[str], columns: int, **variables: str) -> None:
        env = {key: value for key, value in environment(root).items() if key not in ("NO_COLOR", "JPY_PARENT_PID")}
        env |= {"TERM": "xterm-256color", "PYTHONUTF8": "1", **variables}
        settings = {"dimensions": (30, columns), "timeout": PATIENCE, "encoding": "utf-8", "codec_errors": "replace"}
        super().__init__(sys.executable, [*arguments], cwd=str(root), env=env, **settings)
        self.logfile_read = io.StringIO()

    @property
    def text(self) -> str:
        """What it has shown, without colours and movements of the cursor."""
        return CONTROL.sub("", self.logfile_read.getvalue()).replace("\r", "")

    def wait_for(self, holds: Callable[[str], Any]) -> None:
        """Read on until something holds for the text."""
        deadline = time.monotonic() + PATIENCE
        while not holds(self.text):
            assert time.monotonic() < deadline, self.text[-3000:]
            self.read_nonblocking(65536, PATIENCE)

    def finish(self) -> int:
        """Read until the program ends; its exit code."""
        self.expect(pexpect.EOF)
        return int(self.wait())


@pytest.fixture
def root(made: Maker, tmp_path: Path) -> Path:
    return copy_of(made(Configuration(NEWEST[-1], "hf")), tmp_path)


VIEW = f"""
    import logging, os, sys, warnings
    logging.basicConfig()
    from {PACKAGE}.tracking.terminal import make_view
    from {PACKAGE}.tracking import timed
    view = make_view("project / run", 9)
    METRICS = {{
        "critic/rewards/mean": 0.25, "reward/acc/mean": 0.5, "val-core/a/acc/mean@1": 0.5,
        "val-core/b/acc/mean@1": 1.0, "val-aux/a/score/mean@1": 0.0, "actor/kl_loss": 0.01,
        "actor/entropy": 1.5, "actor/pg_clipfrac": 0.01, "critic/vf_loss": 0.5, "critic/vf_explained_var": 0.9,
        "response_length/mean": 99.0, "perf/throughput": 12345.0, "perf/time_per_step": 9.589,
        "timing_s/gen": 9.589, "timing_s/old_log_prob": 125.3, "timing_s/ref": 3.0, "timing_s/values": 2.0,
        "timing_s/adv": 0.02, "timing_s/update_critic": 31.0, "timing_s/update_actor": 61.0,
    }}
"""


def viewing(code: str) -> list[str]:
    return ["-c", textwrap.dedent(VIEW) + textwrap.dedent(code)]


def test_the_least_important_columns_give_way(root: Path) -> None:
    code = """
        view.row(1, METRICS)
        with timed("step", {}), timed("gen", {}):
            input()
        view.close()
    """
    all_columns = "step reward val acc s/step length KL entropy vf loss tokens/s clipped"
    for columns, expected in ((40, "step reward val acc"), (120, all_columns)):
        with Terminal(root, viewing(code), columns) as shown:
            shown.wait_for(lambda text: re.search("^gen  .*ms", text, re.MULTILINE))
            shown.send("\n")
            assert shown.finish() == 0
            drawn = [part.split("\n") for part in re.split(r"(?=(?:project / run  )?step \d+/9  )", shown.text)[1:]]
        (frame,) = [frame for frame in drawn if any(line.startswith("gen  ") for line in frame)][-1:]
        assert " ".join(next(line for line in frame if " reward " in line).split()) == expected
        assert [line for line in frame if len(line) > columns or "…" in line] == []
        assert any(line.startswith("time    gen 9.6 s, old_log_prob 0:02:05") for line in frame)


def test_the_clock_moves_while_a_phase_lasts(root: Path) -> None:
    """The whole program, with a reward that takes its time, prints and logs; then Ctrl-C."""
    go = root / "go"
    (root / "slow.py").write_text(
        textwrap.dedent(f"""
            import logging, os, time
            logging.basicConfig()

            def compute_score(data_source, solution_str, ground_truth, extra_info=None):
                if not os.path.exists({str(go)!r}):
                    print("the hook prints")
                    logging.getLogger("hook").warning("the hook logs")
                while not os.path.exists({str(go)!r}):
                    time.sleep(0.05)
                return 0.0
        """)
    )
    settings = ("reward.custom_reward_function.path=slow.py", "trainer.total_training_steps=100000")
    with Terminal(root, ["main.py", *overrides(*settings)], 80) as shown:
        shown.wait_for(lambda text: len(set(re.findall(r"reward +(\d[\d a-z.]* m?s)", text))) >= 4)
        assert "step 1/" not in shown.text
        assert "the hook prints" in shown.text
        assert "WARNING:hook:the hook logs" in shown.text
        go.touch()
        shown.wait_for(lambda text: re.search(r"step ([2-9]|\d\d+)/100000", text))
        assert "vf loss" not in shown.text
        shown.kill(signal.SIGINT)
        assert shown.finish() == 130
    raw = shown.logfile_read.getvalue()
    assert raw.rindex("\x1b[?25h") > raw.rindex("\x1b[?25l")  # the cursor is shown again


def test_nothing_that_is_printed_is_lost(root: Path) -> None:
    code = """
        import threading
        thread = threading.Thread(target=lambda: [print(f"one {number}.") for number in range(50)])
        thread.start()
        for number in range(50):
            view.row(number, METRICS)
            logging.getLogger("x").warning("log %d.", number)
            print("err %d." % number, file=sys.stderr)
        thread.join()
        child = os.fork()
        if child == 0:
            print("child.", flush=True)
            logging.getLogger("x").warning("child's log.")
            os._exit(0)
        os.waitpid(child, 0)
        view.close()
        print("the end")
    """
    with Terminal(root, viewing(code), 80) as shown:
        assert shown.finish() == 0
    for name in ("one", "WARNING:x:log", "err"):
        assert [n for n in range(50) if f"{name} {n}." not in shown.text] == []
    assert "child." in shown.text
    assert "WARNING:x:child's log." in shown.text
    assert shown.text.rstrip().endswith("the end")


def test_a_terminal_that_cannot_go_back_up_gets_lines(root: Path) -> None:
    code = """
        view.row(1, METRICS)
        view.message("done \u2713")
        view.close()
    """
    for variables in ({"TERM": "dumb"}, {"JPY_PARENT_PID": "1"}, {"PYTHONIOENCODING": "ascii"}):
        with Terminal(root, viewing(code), 80, **variables) as shown:
            assert shown.finish() == 0
        assert "\x1b" not in shown.logfile_read.getvalue(), variables
        lines = shown.text.splitlines()
        assert lines[0].startswith("step 1/9  reward 0.250  val 0.750")
        assert lines[-1].startswith("done")


def test_a_debugger_gets_the_terminal(root: Path) -> None:
    for call in ("breakpoint()", "__import__('pdb').Pdb().set_trace()"):
        code = ("view.row(1, METRICS)", "secret = 41", call, "view.row(2, METRICS)", "view.close()")
        with Terminal(root, viewing("\n".join(code)), 80) as shown:
            shown.wait_for(lambda text: "(Pdb) " in text)
            before = len(shown.text)
            shown.send("p secret + 1\n")
            shown.wait_for(lambda text: "\n42\n" in text)
            assert "reward" not in shown.text[before:]  # no table over it
            shown.send("c\n")
            assert shown.finish() == 0
        assert "step 2/9  reward 0.250" in shown.text
