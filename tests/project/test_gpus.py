"""What a run asks of torch and of the system: kernels on GPUs, as far as it can be seen without one, and memory."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from extractor.values import resources
from tests.project.running import forked, python
from tests.project.support import TOGETHER, Configuration, Maker
from tests.releases import NEWEST, newest_release

KEY = "actor_rollout_ref.actor.fsdp_config.full_determinism"
DETERMINISTIC = f"""
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
GIVEN_BACK = """
import json
from types import SimpleNamespace
import torch
from toy.workers.policy import Policy
torch.cuda.max_memory_allocated, torch.cuda.max_memory_reserved = (lambda at: 3 * 2**30), (lambda at: 4 * 2**30)
print(json.dumps(Policy.memory_metrics(SimpleNamespace(device=None, given_back=lambda: 2**30))))
"""
FREED = """
import json, resource
from toy.run.heap import SMALL, freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        b"x" * 2**23
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

found = []
freed_memory.after_step()  # nobody asked for it
found.append(freed_memory.mapped_from)
freed_memory.give_back()
found.append(faults())
freed_memory.after_step()
faults()
found.append(faults())
b"x" * (SMALL + 2**23)
freed_memory.after_step()
found.append(faults())
print(json.dumps(found))
"""
SETTLED = """
from pathlib import Path
from toy.run.heap import freed_memory
import toy
toy.__path__.append("COMMANDS")
from toy.plan.plan import plan_memory
from toy.settings.loading import load_config, settle_device
for kept in True, False:
    config = load_config(Path("config"), ["scale=toy", f"local.keep_freed_memory={kept}", "local.device=cpu"])
    settle_device(config)
    notes = plan_memory(config).notes
    print(freed_memory.mapped_from is None, any("local.keep_freed_memory" in note for note in notes))
"""


def printed(root: Path, program: str, *arguments: str, start: Any = forked, **variables: str) -> list[str]:
    """The lines that a program prints in a project."""
    done = start(root, "-c", program, *arguments, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("release", newest_release())
def test_kernels_that_add_up_in_one_order(
    made: Maker, tmp_path: Path, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    *_, found = printed(made(Configuration(release, "hf", features=("provenance",))).root, DETERMINISTIC, str(tmp_path))
    (before, nothing, first), (after, workspace, second) = json.loads(found)
    assert (before, nothing) == (False, None)
    assert (after, workspace) == (True, ":4096:8")
    assert first == second


def test_more_processes_than_gpus(made: Maker) -> None:
    root = made(Configuration(NEWEST[-1], "hf")).root
    shown = printed(root, ONE_TOO_MANY, LOCAL_RANK="1", RANK="1", WORLD_SIZE="2")
    assert "process 2 of this machine has no GPU of its own: torch finds 1" in "\n".join(shown)


def test_memory_that_an_engine_has_given_back_is_not_the_trainers(made: Maker) -> None:
    shown = printed(made(Configuration(NEWEST[-1], "vllm")).root, GIVEN_BACK)
    assert json.loads(shown[-1]) == {"perf/max_memory_allocated_gb": 2.0, "perf/max_memory_reserved_gb": 3.0}


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_freed_memory_is_kept_by_small_runs_alone_or_where_that_is_asked_for_and_the_plan_says_so(made: Maker) -> None:
    root = made(Configuration(NEWEST[-1], "hf", features=TOGETHER)).root
    *_, kept, not_kept = printed(root, SETTLED.replace("COMMANDS", str(resources.find_templates() / "command")))
    assert (kept, not_kept) == ("True True", "False False")
    untouched, first, small, large = json.loads(printed(root, FREED, start=python)[-1])
    pages = 10 * 2**23 // 4096
    assert untouched is None
    assert first >= pages / 2  # all of it is asked for anew each time
    assert small < pages / 20
    assert large >= pages / 2
