"""A disk that takes longer than a collective operation may: nobody fails, and the checkpoint is whole."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.processes.launching import TORCHRUN, overrides, started
from tests.project.running import SMALL

pytestmark = pytest.mark.slow

SHORTEN = """
import datetime, time, torch, torch.distributed as dist

def shorten(seconds):
    group = dist.distributed_c10d._get_default_group()
    group._get_backend(torch.device("cpu"))._set_default_timeout(datetime.timedelta(seconds=seconds))
"""
PROGRAM = """
from toy.run.distributed import Ranks

ranks = Ranks()
ranks.barrier()
shorten(1.5)
print("waited for", ranks.on_driver(lambda: time.sleep(3) or "the disk", patient=True), flush=True)
try:
    ranks.on_driver(lambda: time.sleep(3))
except RuntimeError:
    print("a collective operation gave up", flush=True)
ranks.watch.leave()
"""
# Both processes call an estimator in the first step; only rank 0 saves.
SLOW_DISK = """
from .algorithms import register_adv_est
from ..vendored.algorithms.core_algos import compute_grpo_outcome_advantage

save = torch.save


@register_adv_est("before_saving")
def before_saving(token_level_rewards, response_mask, index, **_):
    shorten(6)
    return compute_grpo_outcome_advantage(token_level_rewards, response_mask, index)


def slowly(*arguments, **settings):
    if "global_step_" in str(arguments[1]):  # and no buffer in memory
        time.sleep(9)
    save(*arguments, **settings)


torch.save = slowly
"""


def test_the_others_wait_for_the_driver_longer_than_for_a_collective_operation(project: Path, tmp_path: Path) -> None:
    program = project / "waits.py"
    program.write_text(SHORTEN + PROGRAM)
    with started([*TORCHRUN, "--nproc-per-node=2", str(program)], project, tmp_path / "log") as running:
        running.wait(120)
        text = running.text()
    assert text.count("waited for the disk") == 2
    assert "a collective operation gave up" in text  # so the time was too short for one


@pytest.mark.thorough
def test_a_checkpoint_may_take_longer_than_a_collective_operation(project: Path, tmp_path: Path) -> None:
    custom = project / "toy" / "custom"
    (custom / "slow_disk.py").write_text(SHORTEN + textwrap.dedent(SLOW_DISK))
    (custom / "__init__.py").write_text((custom / "__init__.py").read_text() + "\nfrom . import slow_disk  # noqa\n")
    run = tmp_path / "run"
    settings = ("algorithm.adv_estimator=before_saving", "trainer.total_training_steps=1")
    arguments = ["main.py", *overrides(SMALL, (f"trainer.default_local_dir={run}",), settings)]
    with started([*TORCHRUN, "--nproc-per-node=2", *arguments], project, tmp_path / "log") as running:
        code, text = running.wait(240), running.text()
    assert code == 0, text[-3000:]
    assert (run / "global_step_1" / "complete.json").is_file()
