"""A disk that takes longer than a collective operation may: nobody fails, and the checkpoint is whole."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import pytest

from tests.processes.launching import TORCHRUN, overrides, started
from tests.project.running import SMALL

pytestmark = pytest.mark.slow

SHORTEN = """
import datetime, threading, time, torch, torch.distributed as dist

def shorten(seconds):
    group = dist.distributed_c10d._get_default_group()
    group._get_backend(torch.device("cpu"))._set_default_timeout(datetime.timedelta(seconds=seconds))
"""
PROGRAM = """
from types import SimpleNamespace as Section
from toy.run.distributed import Ranks

def hold(seconds):
    # sum() over a range lets no other thread run.
    begun = time.monotonic()
    sum(range(10_000_000))
    sum(range(int(10_000_000 * seconds / (time.monotonic() - begun))))

ranks = Ranks.of_process(Section(actor_rollout_ref=Section(nccl_timeout=600), local=Section(peer_timeout=4)))
ranks.barrier()
shorten(1.5)
ranks.on_driver(lambda: time.sleep(3))
print("waited for the driver", flush=True)
ranks.together(lambda: time.sleep(3 * ranks.rank))
print("waited for each other", flush=True)
ranks.on_driver(lambda: hold(10))
print("waited for one that computes", flush=True)
try:
    time.sleep(3 * ranks.rank)
    ranks.barrier()
except RuntimeError:
    print("a collective operation gave up", flush=True)

class Slow:
    def __init__(self, store):
        self.store = store

    def __getattr__(self, name):
        return getattr(self.store, name)

    def multi_get(self, keys):
        time.sleep(7)
        return self.store.multi_get(keys)

ranks.watch.store = Slow(ranks.watch.store)
time.sleep(2)
ranks.watch.leave()
if "signs of life" not in [thread.name for thread in threading.enumerate()]:
    print("left with no thread in the store", flush=True)
"""
# Both processes call an estimator in the first step. The files of whole checkpoints are written on rank 0, and of the
# shares of both those of rank 1 are the slow ones.
SLOW_DISK = """
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from .algorithms import register_adv_est
from ..vendored.algorithms.core_algos import compute_grpo_outcome_advantage

save, write_data = torch.save, HuggingFaceStorageWriter.write_data


@register_adv_est("before_saving")
def before_saving(token_level_rewards, response_mask, index, **_):
    shorten(6)
    return compute_grpo_outcome_advantage(token_level_rewards, response_mask, index)


def slowly(*arguments, **settings):
    if "optimizer.pt" in str(arguments[1]) and dist.get_world_size() > 1 and not SHARED:
        time.sleep(9)
    save(*arguments, **settings)


def wait_and_write(self, plan, planner):
    if dist.get_rank() == 1 and "weights" in str(self.path) and "step_2" in str(self.path):
        time.sleep(9)
        print("the share of rank 1 is written", flush=True)
    return write_data(self, plan, planner)


torch.save, HuggingFaceStorageWriter.write_data = slowly, wait_and_write
"""


@pytest.mark.thorough
def test_processes_wait_for_each_other_longer_than_for_a_collective_operation(project: Path, tmp_path: Path) -> None:
    program = project / "waits.py"
    program.write_text(SHORTEN + PROGRAM)
    with started([*TORCHRUN, "--nproc-per-node=2", str(program)], project, tmp_path / "log") as running:
        running.wait(120)
        text = running.text()
    for what in ("the driver", "each other", "one that computes"):
        assert text.count(f"waited for {what}") == 2, text
    assert "a collective operation gave up" in text  # so the time was too short for one
    assert text.count("left with no thread in the store") == 2, text


@pytest.mark.parametrize(
    ("sharded", "asynchronous"),
    [
        pytest.param(True, True, marks=pytest.mark.thorough),
        pytest.param(True, False, marks=pytest.mark.thorough),
        pytest.param(False, False, marks=pytest.mark.thorough),
        pytest.param(False, True, marks=pytest.mark.thorough),
    ],
)
def test_a_checkpoint_may_take_longer_than_a_collective_operation(
    project: Path, tmp_path: Path, sharded: bool, asynchronous: bool
) -> None:
    root = Path(shutil.copytree(project, tmp_path / "project"))
    custom = root / "toy" / "custom"
    (custom / "slow_disk.py").write_text(SHORTEN + f"\nSHARED = {sharded}\n" + textwrap.dedent(SLOW_DISK))
    (custom / "__init__.py").write_text((custom / "__init__.py").read_text() + "\nfrom . import slow_disk  # noqa\n")
    run = tmp_path / "run"
    settings = (
        "algorithm.adv_estimator=before_saving",
        "trainer.total_training_steps=5",
        "trainer.save_freq=2",
        f"local.checkpoint.sharded={sharded}",
        f"local.checkpoint.asynchronous={asynchronous}",
    )
    arguments = ["main.py", *overrides(SMALL, (f"trainer.default_local_dir={run}",), settings)]
    with started([*TORCHRUN, "--nproc-per-node=2", *arguments], root, tmp_path / "log") as running:
        code, text = running.wait(240), running.text()
    assert code == 0, text[-3000:]
    for step in (2, 4, 5):
        assert (run / f"global_step_{step}" / "complete.json").is_file()
        assert (run / f"global_step_{step}" / "actor" / "weights").is_dir() == sharded
    if sharded:
        written = text.index("the share of rank 1 is written")
        assert (text.index("step 3/5") < written) == asynchronous
    assert ("waiting until global_step_2 is written" in text) == asynchronous
