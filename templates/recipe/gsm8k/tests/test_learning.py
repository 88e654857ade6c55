# vextract:template - edit freely
"""Without a model: the toy model learns the form that the answer should have. It learns no arithmetic."""

from __package__.tracking.run_tracker import read_rows


def test_it_learns_the_form_of_the_answer(train):
    run = train(
        "data.train_batch_size=8",
        "actor_rollout_ref.rollout.n=16",
        "actor_rollout_ref.actor.ppo_mini_batch_size=8",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128",
        "trainer.total_training_steps=20",
    )
    form = [row["reward/format/mean"] for row in read_rows(run / "metrics.jsonl")]
    assert sum(form[:3]) / 3 < 0.5 and sum(form[-3:]) / 3 > 0.7


def test_validation_says_that_it_is_the_sample(train):
    run = train("trainer.val_only=true", "trainer.val_before_train=true")
    assert "val-core/gsm8k_sample/acc/mean@1" in read_rows(run / "metrics.jsonl")[0]
