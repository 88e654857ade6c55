# vextract:template recipe/toy/tests/test_learning.py - edit freely
"""The toy model learns the toy task, and is asked what it has not seen."""

import pytest

from generated_example.custom.env_dataset import environment_rows
from generated_example.tracking.run_tracker import read_rows

pytestmark = pytest.mark.skipif(
    not environment_rows("train", {})[0]["data_source"].startswith("toy_"), reason="the environment is another one"
)


def test_it_learns(train):
    run = train(
        "data.env.task=succ",
        "data.train_batch_size=8",
        "actor_rollout_ref.rollout.n=16",
        "actor_rollout_ref.actor.ppo_mini_batch_size=8",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128",
        "trainer.total_training_steps=30",
    )
    rewards = [row["critic/rewards/mean"] for row in read_rows(run / "metrics.jsonl")]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.15


def test_validation_names_what_is_held_out(train):
    run = train("trainer.val_only=true", "trainer.val_before_train=true")
    assert "val-core/toy_succ2_held_out/acc/mean@1" in read_rows(run / "metrics.jsonl")[0]
