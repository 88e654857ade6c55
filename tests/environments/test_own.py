"""An environment of one's own is used under any name; one that hangs does not hold a run that is to end."""

import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.environments.support import Project
from tests.project.running import overrides, started, train
from tests.project.support import REPOSITORY

pytestmark = pytest.mark.usefixtures("verl")

# Begins from seeds, in coroutines, and reports what is no number.
OWN = """
import random


def make_env(settings):
    return Weather(settings.get("days", 2))


class Weather:
    def __init__(self, days):
        self.left = days

    async def reset(self, *, seed=None, options=None):
        self.tomorrow = random.Random(seed).choice("0123456789")
        return f"{seed % 10}?", {}

    async def step(self, action):
        self.left -= 1
        right = action[:1] == self.tomorrow
        return "-", float(right), right, self.left == 0, {"acc": float(right), "seen": [action]}
"""


def test_an_environment_of_ones_own_trains(episodic: Project, tmp_path: Path) -> None:
    """In one turn, and in two: without a change of any other file."""
    root = Path(shutil.copytree(episodic.root, tmp_path / "project"))
    (root / episodic.package / "custom" / "env_wrapper.py").write_text(OWN, encoding="utf-8")
    several = "actor_rollout_ref.rollout.multi_turn.enable"
    *_, last = train(root, f"{several}=false")
    assert last["step"] == 2
    assert "reward/acc/mean" in last
    assert "reward/seen/mean" not in last
    (root / "checkpoints").rename(root / "one")
    *_, last = train(root, f"{several}=true", "data.max_response_length=20")
    assert (last["step"], last["env/errors"], last["env/turns/max"]) == (2, 0, 2)


def test_every_setting_is_documented(episodic: Project) -> None:
    page = (REPOSITORY / "docs" / "environments.md").read_text(encoding="utf-8")
    assert [name for name in episodic.config().local.env if f"local.env.{name}" not in page] == []


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
