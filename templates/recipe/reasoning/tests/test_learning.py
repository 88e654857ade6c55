# vextract:template - edit freely
"""Without a model: the toy model learns the form of a response. It learns no arithmetic."""

import json

from __package__.tracking.run_tracker import read_rows


def test_it_learns_the_form(train):
    run = train(
        "data.train_batch_size=16",
        "actor_rollout_ref.rollout.n=16",
        "actor_rollout_ref.actor.ppo_mini_batch_size=16",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=256",
        "trainer.total_training_steps=25",
    )
    form = [row["reward/format/mean"] for row in read_rows(run / "metrics.jsonl")]
    assert sum(form[-3:]) / 3 > sum(form[:3]) / 3 + 0.15
    samples = (run / "reward_samples" / "samples.jsonl").read_text().splitlines()
    assert set(json.loads(samples[0])["components"]) == {"score", "format", "thinking", "answer", "acc", "pred"}


def test_validation_says_that_it_is_the_sample(train):
    run = train("trainer.val_only=true", "trainer.val_before_train=true")
    assert "val-core/countdown_sample/acc/mean@1" in read_rows(run / "metrics.jsonl")[0]
