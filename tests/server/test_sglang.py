"""Runs of an sglang project whose server is started by the trainer.

SGLang has no build for a CPU. What is started in its place is the project's own double (tests/sglang_double.py): it
takes the documented command line and requests, and nothing else.
"""

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.running import check_forked
from tests.server.conftest import Run
from tests.server.test_ahead import AHEAD

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")]


def test_the_projects_own_tests_of_the_rollout_pass(sglang_project: Path) -> None:
    done = check_forked(sglang_project, "-m", "pytest", "tests/test_rollout.py")
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), "some were skipped"


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_a_run_starts_one_server_and_stops_it(run: Callable[..., Run], processes: int) -> None:
    one = run(
        "trainer.total_training_steps=2",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        "actor_rollout_ref.rollout.enable_prefix_caching=false",
        "local.server.repeatable=true",
        processes=processes,
    )
    assert one.end(180) == 0, one.text()
    assert one.server_processes() == []
    assert one.text().count("starting the SGLang server") == 1
    assert "the SGLang server is ready after" in one.text()
    log = (one.directory / "server.log").read_text()
    for option in ("--load-format dummy", "--disable-radix-cache", "--enable-deterministic-inference", "--device cpu"):
        assert option in log.splitlines()[0]
    assert [path.name for path in one.directory.glob("weights-*")] == []
    # The server was started with random weights: only the policy's own can have the policy's probabilities.
    assert len(one.steps()) == 2
    assert all(step["training/rollout_probs_diff_max"] < 1e-5 for step in one.steps())


@pytest.mark.parametrize("settings", [(), pytest.param(AHEAD, marks=pytest.mark.thorough)], ids=["each step", "ahead"])
def test_a_server_that_dies_ends_the_run_which_goes_on_as_if_it_had_not(
    run: Callable[..., Run], settings: tuple[str, ...]
) -> None:
    settings = (*settings, "local.server.repeatable=true", "actor_rollout_ref.actor.optim.lr=0.001")
    one = run(
        *settings, "trainer.total_training_steps=100000", "actor_rollout_ref.actor.optim.lr_scheduler_type=constant"
    )
    one.wait_for_steps(2)
    os.kill(one.server(), signal.SIGKILL)
    assert one.end(timeout=60) == 1
    assert "error: the SGLang server has ended" in one.text()
    assert "exit code -9" in one.text()
    assert "Traceback" not in one.text()
    assert re.search("The state (from before this step is saved|after step)", one.text())
    assert one.server_processes() == []
    last = len(one.steps()) + 2
    found = []
    for name in ("run", "whole"):
        again = run(*settings, f"trainer.total_training_steps={last}", name=name)
        assert again.end() == 0, again.text()
        found.append((again.directory / f"global_step_{last}/actor/model.safetensors").read_bytes())
    assert found[0] == found[1]
