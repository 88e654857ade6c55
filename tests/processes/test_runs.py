"""Whole runs under torchrun: killed and hanging processes; and launch/."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import yaml

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
        running.send_signal(signal.SIGINT)
        assert running.wait(60) != 0
        text = running.text()
    assert "stopping after this step" in text
    # torchrun's own process may abort as it ends: "Fatal Python error".
    assert not [line for line in text.splitlines() if line.startswith("error:")]
    assert last_saved(run) == int(text.rpartition("\nstep ")[2].partition("/")[0])


@pytest.mark.thorough
def test_a_process_that_hangs_is_noticed(project: Path, tmp_path: Path) -> None:
    arguments = [*TORCHRUN, "--nproc-per-node=2", *command(tmp_path / "run", "local.peer_timeout=5")]
    with started(arguments, project, tmp_path / "log") as running:
        running.wait_for("step 6/")
        hanging = running.workers()[1]
        os.kill(hanging, signal.SIGSTOP)
        running.wait_for("error: ", seconds=60)
        text = running.text()
        os.kill(hanging, signal.SIGKILL)
        assert running.wait(60) == 1
    assert f"error: rank 1 (process {hanging} on " in text
    assert "has given no sign of life for 5 s; it was in phase " in text
    assert last_saved(tmp_path / "run") >= 4


def test_the_files_are_well_formed(project: Path) -> None:
    sky = yaml.safe_load((project / "launch/sky.yaml").read_text())
    assert {"name", "num_nodes", "resources", "workdir", "envs", "setup", "run"} == set(sky)
    steps = yaml.safe_load((project / "launch/upgrade.yml").read_text())["jobs"]["upgrade"]["steps"]
    scripts = [step["run"] for step in steps if "run" in step]
    for script in ((project / "launch/slurm.sh").read_text(), sky["run"], *scripts):
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
