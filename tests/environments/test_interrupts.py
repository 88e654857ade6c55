"""A run whose environment hangs ends at the second signal, of whichever kind, and however the environment hangs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.project.running import environment, overrides
from tests.project.support import Configuration, make
from tests.releases import NEWEST

pytestmark = pytest.mark.usefixtures("verl")

HANGS = """
import time


def make_env(settings):
    return Hangs()


class Hangs:
    def reset(self, *, seed=None, options=None):
        return "?", {}

    def step(self, action):
        print("hanging", flush=True)
        while True:
            try:
                time.sleep(600)
            except HANDLED:
                pass
"""


@pytest.mark.parametrize(
    ("handled", "number"),
    [("OSError", signal.SIGTERM), pytest.param("BaseException", signal.SIGINT, marks=pytest.mark.thorough)],
)
def test_the_second_signal_ends_a_run_that_hangs(tmp_path: Path, handled: str, number: signal.Signals) -> None:
    root = make(Configuration(NEWEST[-1], recipe="multiturn"), tmp_path / "project").root
    (root / "toy" / "custom" / "env_wrapper.py").write_text(HANGS.replace("HANDLED", handled), encoding="utf-8")
    command = [sys.executable, "-u", "main.py", *overrides("data.env.val_size=4")]
    run = subprocess.Popen(
        command, cwd=root, env=environment(root), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert run.stdout is not None
        seen = ""
        for sign in ("hanging", "stopping after this step"):
            while sign not in seen:
                line = run.stdout.readline()
                assert line, seen
                seen += line
            time.sleep(1.0)  # a signal that comes at once is the same one, passed on
            run.send_signal(number)
        rest, _ = run.communicate(timeout=120)
    finally:
        run.kill()
    assert run.returncode == 130, seen + rest
    assert "interrupted" in rest
    assert "Traceback" not in rest
