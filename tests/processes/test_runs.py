"""Whole runs under torchrun: killed and hanging processes, many steps; and launch/."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

from tests.processes.launching import TORCHRUN, drive, overrides, started
from tests.project.running import SMALL, environment

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


# Two "nodes", both this machine: what is to run on each, twice at once.
SRUN = """#!/usr/bin/env bash
while [[ $1 == --* ]]; do shift; done
"$@" & one=$!
"$@" & two=$!
wait $one && wait $two
"""
SCONTROL = "#!/bin/sh\nprintf '127.0.0.1\\n127.0.0.1\\n'\n"


def test_the_files_are_well_formed(project: Path) -> None:
    sky = yaml.safe_load((project / "launch/sky.yaml").read_text())
    assert {"name", "num_nodes", "resources", "workdir", "envs", "setup", "run"} == set(sky)
    steps = yaml.safe_load((project / "launch/upgrade.yml").read_text())["jobs"]["upgrade"]["steps"]
    scripts = [step["run"] for step in steps if "run" in step]
    for script in ((project / "launch/slurm.sh").read_text(), sky["run"], *scripts):
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.thorough
def test_slurm_s_script_trains_over_two_nodes(project: Path, tmp_path: Path) -> None:
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    torchrun = project / ".venv/bin/torchrun"
    torchrun.parent.mkdir(parents=True)
    torchrun.symlink_to(Path(sys.executable).with_name("torchrun"))
    job = {"SLURM_NNODES": "2", "SLURM_JOB_ID": str(os.getpid()), "SLURM_JOB_NODELIST": "node[1-2]"}
    run = f"trainer.default_local_dir={tmp_path / 'run'}"
    done = subprocess.run(
        ["bash", "launch/slurm.sh", *overrides(SMALL, (run, "preset=grpo"))],
        cwd=project,
        env={**environment(project), **job, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "run/global_step_2/complete.json").is_file()


STEPS = 100
# A batch that was kept by mistake is more than 100 KB, so that 60 of them show.
SETTINGS = (
    "algorithm.adv_estimator=gae",
    "algorithm.use_kl_in_reward=true",
    "actor_rollout_ref.rollout.n=16",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64",
    "actor_rollout_ref.actor.use_dynamic_bsz=true",
    "data.max_response_length=8",
    f"trainer.total_training_steps={STEPS}",
    "trainer.test_freq=25",
    "trainer.save_freq=25",
    "trainer.max_actor_ckpt_to_keep=1",
    "trainer.logger=[]",
    "rollouts=own",
)


@pytest.mark.thorough
def test_memory_does_not_grow(project: Path, tmp_path: Path) -> None:
    drive(project, [("2", 2, {"long": overrides(SMALL, SETTINGS)}, {})], tmp_path)
    for rank in range(2):
        steps = torch.load(tmp_path / f"2/long/steps-{rank}.pt", weights_only=False)
        memory = [step["memory"] / 2**20 for step in steps]
        print([round(value) for value in memory[::10]])
        assert len(memory) == STEPS
        assert max(memory[-20:]) - max(memory[20:40]) < 5, memory[::10]
