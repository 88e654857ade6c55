# vextract:template - edit freely
"""Short runs of the whole program: a few steps of a toy model on a CPU, in episodes of several turns."""

import math

import pytest

from __package__.settings import reward_keys
from __package__.tracking.run_tracker import read_rows

UPSTREAM_NAMES = {
    "critic/score/mean",
    "critic/rewards/mean",
    "critic/advantages/mean",
    "actor/entropy",
    "actor/pg_loss",
    "actor/grad_norm",
    "actor/lr",
    "response_length/mean",
    "prompt_length/mean",
    "perf/throughput",
    "timing_s/gen",
    "timing_s/step",
    "training/global_step",
}
ENV_NAMES = {"env/turns/mean", "env/terminated", "env/truncated", "env/errors", "env/timeouts", "env/return/mean"}
# Enough episodes for some to find the digit by chance.
SIZES = (
    "data.train_batch_size=10",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=10",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=80",
)


def test_a_step_reports_upstreams_metrics_and_the_environments(train):
    run = train(*SIZES, "trainer.total_training_steps=2", "trainer.val_before_train=true", "trainer.test_freq=2")
    rows = read_rows(run / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert {"val-core/guess_digit/acc/mean@1", "val-aux/guess_digit/turns/mean@1"} <= rows[0].keys() & rows[2].keys()
    assert not (UPSTREAM_NAMES | ENV_NAMES) - rows[1].keys()
    assert all(math.isfinite(value) for value in rows[1].values())
    assert 1 < rows[1]["env/turns/mean"] <= 4 and rows[1]["env/errors"] == 0
    assert rows[1]["env/return/mean"] == pytest.approx(rows[1]["critic/score/mean"])


def test_the_same_seed_gives_the_same_run_and_another_does_not(train):
    runs = [reproducible(read_rows(train(*SIZES, f"local.seed={seed}") / "metrics.jsonl")) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("estimator", ["rloo", "reinforce_plus_plus", "remax"])
def test_estimators_give_a_step(train, estimator):
    run = train(*SIZES, f"algorithm.adv_estimator={estimator}", "local.env.reward_at=turn")
    row = read_rows(run / "metrics.jsonl")[-1]
    assert math.isfinite(row["actor/pg_loss"]) and row["actor/grad_norm"] > 0


def test_a_single_turn_can_be_trained_as_well(train):
    run = train(*SIZES, "actor_rollout_ref.rollout.multi_turn.enable=false", "data.max_response_length=2")
    row = read_rows(run / "metrics.jsonl")[-1]
    assert "env/turns/mean" not in row and row["response_length/mean"] <= 2


def test_an_environment_that_fails_too_often_stops_the_run_and_is_named(train, monkeypatch, capsys):
    from __package__.custom.env_wrapper import make_env

    monkeypatch.setattr(type(make_env({})), "step", lambda self, action: 1 / 0)
    train(code=1)
    shown = capsys.readouterr().err
    assert "16 of 16 environments failed" in shown and "step raised ZeroDivisionError" in shown
    assert "test_trainer.py:" in shown and "sample: index=0, prompt='<user>?<assistant>'" in shown


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("local.env.reward_at=start", "local.env.reward_at"),
        ("local.env.concurrency=0", "local.env.concurrency"),
        (f"{reward_keys.FUNCTION}.path={__file__}", "local.env.is_reward"),
        ("actor_rollout_ref.rollout.multi_turn.max_turns=3", "max_user_turns"),
    ],
)
def test_a_mistake_in_the_config_is_an_error_with_a_hint(train, capsys, override, message):
    train(override, code=2)
    shown = capsys.readouterr().err
    assert message in shown and "hint:" in shown and "Traceback" not in shown


def reproducible(rows):
    """Return what of the metrics does not depend on the machine and the clock."""
    return [{k: v for k, v in row.items() if not k.startswith(("perf/", "time", "timing_"))} for row in rows]
