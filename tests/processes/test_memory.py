"""A hundred steps need no more memory than forty."""

from pathlib import Path

import pytest
import torch

from tests.processes.launching import Phase, drive, overrides
from tests.project.running import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

STEPS = 100
# A batch that was kept by mistake is more than 100 KB, so that 60 of them show.
SETTINGS = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.rollout.n=16",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128",
    "data.max_response_length=8",
    f"trainer.total_training_steps={STEPS}",
    "trainer.test_freq=25",
    "trainer.save_freq=25",
    "trainer.max_actor_ckpt_to_keep=1",
    "trainer.logger=[]",
    "rollouts=own",
)
EVERYTHING = (
    "algorithm.adv_estimator=gae",
    "algorithm.use_kl_in_reward=true",
    "actor_rollout_ref.actor.use_kl_loss=true",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64",
    "actor_rollout_ref.actor.use_dynamic_bsz=true",
)


@pytest.mark.parametrize("more", [(), EVERYTHING], ids=["grpo", "everything"])
def test_memory_does_not_grow(project: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    drive(project, [Phase("2", 2, {"long": overrides(SMALL, SETTINGS, more)})], tmp_path)
    for rank in range(2):
        steps = torch.load(tmp_path / f"2/long/steps-{rank}.pt", weights_only=False)
        memory = [step["memory"] / 2**20 for step in steps]
        print([round(value) for value in memory[::10]])
        assert len(memory) == STEPS
        assert max(memory[-20:]) - max(memory[20:40]) < 5, memory[::10]
