"""Runs of an sglang project whose server is started by the trainer.

SGLang has no build for a CPU. What is started in its place is the project's own double (tests/sglang_double.py): it
takes the documented command line and requests, and nothing else.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.running import environment
from tests.server.conftest import Run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc"),
]


def server_of(run: Run) -> list[int]:
    """The process of the server itself."""
    return [pid for pid in run.server_processes() if b"keeper.py" not in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.thorough
def test_the_projects_own_tests_of_the_rollout_pass(sglang_project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/test_rollout.py"],
        cwd=sglang_project,
        env=environment(sglang_project),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), "some were skipped"


def test_a_run_starts_its_server_and_stops_it(
    sglang_project: Path, tmp_path: Path, start: Callable[..., Run], in_place_of_sglang: dict[str, str]
) -> None:
    run = start(
        sglang_project,
        tmp_path / "run",
        "trainer.total_training_steps=2",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        "actor_rollout_ref.rollout.enable_prefix_caching=false",
        "local.server.repeatable=true",
        **in_place_of_sglang,
    )
    assert run.end() == 0, run.text()
    assert run.server_processes() == []
    assert "the SGLang server is ready after" in run.text()
    log = (run.directory / "server.log").read_text()
    for option in ("--load-format dummy", "--disable-radix-cache", "--enable-deterministic-inference", "--device cpu"):
        assert option in log.splitlines()[0]
    assert [path.name for path in run.directory.glob("weights-*")] == []
    # The server was started with random weights: only the policy's own can have the policy's probabilities.
    assert all(step["training/rollout_probs_diff_max"] < 1e-5 for step in run.steps())


def test_a_server_that_dies_ends_the_run_within_seconds(
    sglang_project: Path, tmp_path: Path, start: Callable[..., Run], in_place_of_sglang: dict[str, str]
) -> None:
    run = start(sglang_project, tmp_path / "run", "trainer.total_training_steps=100000", **in_place_of_sglang)
    run.wait_for_steps(1)
    (server,) = server_of(run)
    killed = time.monotonic()
    os.kill(server, signal.SIGKILL)
    assert run.end(timeout=30) == 1
    assert time.monotonic() - killed < 15
    assert "error: the SGLang server has ended" in run.text()
    assert "exit code -9" in run.text()
    assert "Traceback" not in run.text()
    assert "saved" in run.text()
    assert run.server_processes() == []


@pytest.mark.thorough
def test_two_processes_share_one_server(
    sglang_project: Path, tmp_path: Path, start: Callable[..., Run], in_place_of_sglang: dict[str, str]
) -> None:
    run = start(
        sglang_project,
        tmp_path / "run",
        "trainer.total_training_steps=2",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        processes=2,
        **in_place_of_sglang,
    )
    assert run.end(180) == 0, run.text()
    assert run.text().count("starting the SGLang server") == 1
    assert run.server_processes() == []
    assert len(run.steps()) == 2
    assert all(step["training/rollout_probs_diff_max"] < 1e-5 for step in run.steps())
