"""A run whose environment hangs ends at the second signal, of whichever kind; at the third, if it catches that."""

import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.environments.support import Project
from tests.project.running import overrides, started

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
def test_a_run_that_hangs_ends(episodic: Project, tmp_path: Path, handled: str, number: signal.Signals) -> None:
    root = Path(shutil.copytree(episodic.root, tmp_path / "project"))
    (root / episodic.package / "custom" / "env_wrapper.py").write_text(HANGS.replace("HANDLED", handled))
    output = tmp_path / "output"
    run = started(root, output, "main.py", *overrides("data.env.val_size=4"))
    try:
        for sign in ("hanging", "stopping after this step"):
            while not (output.exists() and sign in output.read_text(encoding="utf-8")):
                assert run.poll() is None, output.read_text(encoding="utf-8")
                time.sleep(0.1)
            time.sleep(1.0)  # a signal that comes at once is the same one, passed on
            run.send_signal(number)
        if handled == "BaseException":
            time.sleep(1.0)
            run.send_signal(number)
        code = run.wait(120)
    finally:
        run.kill()
    seen = output.read_text(encoding="utf-8")
    assert code == 130, seen
    assert ("interrupted" in seen.partition("stopping after this step")[2]) == (handled == "OSError")
    assert "Traceback" not in seen
