"""The files in a project's launch/: what they say is well formed, and SLURM's starts a run over two nodes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.processes.launching import overrides
from tests.project.running import SMALL, environment

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
    for script in ((project / "launch/slurm.sh").read_text(), sky["run"]):
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    steps = yaml.safe_load((project / "launch/upgrade.yml").read_text())["jobs"]["upgrade"]["steps"]
    for script in (step["run"] for step in steps if "run" in step):
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    instructions = [line.split(" ")[0] for line in (project / "launch/Dockerfile").read_text().splitlines()]
    assert [word for word in instructions if word.isupper()] == [
        *("FROM", "RUN", "WORKDIR", "COPY", "RUN", "ENV", "ENTRYPOINT", "CMD")
    ]


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
