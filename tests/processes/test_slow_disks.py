"""A disk that takes longer than a collective operation may: nobody fails, and the checkpoint is whole."""

import shutil
import textwrap
from pathlib import Path

import pytest

from tests.processes.launching import TORCHRUN, overrides, started
from tests.project.running import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

SHORTEN = """
import datetime, threading, time, torch, torch.distributed as dist

def shorten(seconds):
    group = dist.distributed_c10d._get_default_group()
    group._get_backend(torch.device("cpu"))._set_default_timeout(datetime.timedelta(seconds=seconds))
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


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("sharded", [True, False])
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
