"""Whole runs under torchrun, with what happens to runs: killed processes, hanging ones, Ctrl-C, a second machine."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from tests.processes.launching import TORCHRUN, overrides, started
from tests.project.running import SMALL

pytestmark = pytest.mark.slow

LONG = ("algorithm.adv_estimator=grpo", "trainer.total_training_steps=5000", "trainer.save_freq=4")


def command(directory: Path, *settings: str) -> list[str]:
    """main.py and its settings."""
    return ["main.py", *overrides(SMALL, LONG, (f"trainer.default_local_dir={directory}",), settings)]


def last_saved(directory: Path) -> int:
    """The step of the last checkpoint."""
    return int((directory / "latest_checkpointed_iteration.txt").read_text())


def test_a_killed_process_ends_the_run_which_then_goes_on_until_it_is_told_to_stop(
    project: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    arguments = [*TORCHRUN, "--nproc-per-node=2", *command(run)]
    with started(arguments, project, tmp_path / "killed.log") as running:
        running.wait_for("step 6/")
        killed = running.workers()[1]
        os.kill(killed, signal.SIGKILL)
        began = time.monotonic()
        assert running.wait(60) == 1
        assert time.monotonic() - began < 60
        text = running.text()
    assert f"error: rank 1 (process {killed} on {socket.gethostname()}) was killed in phase " in text
    assert text.count("hint: the same command goes on from the last checkpoint") == 1
    assert "[rank0]: Traceback" not in text  # no traceback of a process that only noticed
    saved = last_saved(run)
    assert saved >= 4

    with started(arguments, project, tmp_path / "resumed.log") as running:
        running.wait_for(f"step {saved + 2}/")
        assert f"resuming from {run / f'global_step_{saved}'}" in running.text()
        running.process.send_signal(signal.SIGINT)
        assert running.wait(60) != 0
        text = running.text()
    assert "stopping after this step" in text
    # torchrun's own process may abort as it ends: "Fatal Python error".
    assert not [line for line in text.splitlines() if line.startswith("error:")]
    assert last_saved(run) == int(text.rpartition("\nstep ")[2].partition("/")[0])


@pytest.mark.thorough
def test_an_error_is_told_once(project: Path, tmp_path: Path) -> None:
    """The reward fails on rank 0 and ends both processes, with one message and a checkpoint to go on from."""
    score = tmp_path / "score.py"
    score.write_text("def compute_score(**kwargs):\n    raise ZeroDivisionError('no judge today')\n")
    run = tmp_path / "run"
    arguments = [*TORCHRUN, "--nproc-per-node=2", *command(run, f"reward.custom_reward_function.path={score}")]
    with started(arguments, project, tmp_path / "log") as running:
        assert running.wait(120) == 1
        text = running.text()
    assert text.count("error: ") == 1
    assert text.count("raised ZeroDivisionError: no judge today") == 1
    assert "The state from before this step is saved" in text
    assert "[rank" not in text
    assert last_saved(run) == 0


@pytest.mark.thorough
def test_a_second_machine_needs_nothing_but_the_project_and_its_loss_is_noticed(project: Path, tmp_path: Path) -> None:
    """Two agents, as on two machines that share no disk; the second one's process stops answering."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torchrun = [
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=test"),
    ]
    runs = [tmp_path / "first", tmp_path / "second"]
    patience = "local.peer_timeout=5"
    # Left to themselves, both agents try to open the port, and the slower one may give up.
    hosts = ("--rdzv-conf=is_host=1,timeout=300", "--rdzv-conf=is_host=0,timeout=300")
    first, second = ([*torchrun, host, *command(run, patience)] for run, host in zip(runs, hosts, strict=True))
    with (
        started(first, project, tmp_path / "first.log") as one,
        started(second, project, tmp_path / "second.log") as other,
    ):
        (driver, follower) = (one, other)
        deadline = time.monotonic() + 120
        while "step 6/" not in one.text() + other.text():
            assert time.monotonic() < deadline, one.text()[-2000:] + other.text()[-2000:]
            time.sleep(0.1)
        if "step 6/" in other.text():  # torchrun gives out the ranks
            driver, follower = other, one
        (hanging,) = follower.workers()
        os.kill(hanging, signal.SIGSTOP)
        driver.wait_for("error: ", seconds=60)
        text = driver.text()
        os.kill(hanging, signal.SIGKILL)
        assert driver.wait(60) == 1
    assert f"error: rank 1 (process {hanging} on " in text
    assert "has given no sign of life for 5 s; it was in phase " in text
    written = [run for run in runs if run.exists()]
    assert len(written) == 1  # by rank 0
    assert last_saved(written[0]) >= 4
