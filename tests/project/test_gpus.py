"""What a run on GPUs asks torch for, as far as it can be seen without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.support import Configuration, Made
from tests.releases import NEWEST, newest_release

KEY = "actor_rollout_ref.actor.fsdp_config.full_determinism"
DRIVER = f"""
import json, os, sys
from pathlib import Path
from toy import LocalPPOTrainer, load_config
import torch
found = []
for value in "false", "true":
    own = "trainer.default_local_dir=" + sys.argv[1] + value, "trainer.total_training_steps=2", "{KEY}=" + value
    with LocalPPOTrainer(load_config(*own, "trainer.test_freq=-1", "trainer.logger=[console]")) as trainer:
        result = trainer.fit()
    enabled = torch.are_deterministic_algorithms_enabled()
    norms = [result.metrics[step]["actor/grad_norm"] for step in (1, 2)]
    found.append([enabled, os.environ.get("CUBLAS_WORKSPACE_CONFIG"), norms])
print(json.dumps(found))
"""
ONE_TOO_MANY = """
import torch
torch.cuda.is_available, torch.cuda.device_count = (lambda: True), (lambda: 1)
from toy.errors import ConfigError
from toy.run.distributed import Ranks
try:
    Ranks()
except ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize("release", newest_release())
def test_kernels_that_add_up_in_one_order(made: Callable[[Configuration], Made], tmp_path: Path, release: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CUBLAS_WORKSPACE_CONFIG"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path)],
        cwd=made(Configuration(release, "hf")).root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (before, nothing, first), (after, workspace, second) = json.loads(done.stdout.splitlines()[-1])
    assert (before, nothing) == (False, None)
    assert (after, workspace) == (True, ":4096:8")
    assert first == second


def test_more_processes_than_gpus(made: Callable[[Configuration], Made]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONE_TOO_MANY],
        cwd=made(Configuration(NEWEST[-1], "hf")).root,
        env={**os.environ, "LOCAL_RANK": "1", "RANK": "1", "WORLD_SIZE": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "process 2 of this machine has no GPU of its own: torch finds 1" in done.stdout
