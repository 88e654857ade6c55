# vextract:template - edit freely
"""Short runs of the whole program: a few steps of a toy model on a CPU."""

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
    "actor/ppo_kl",
    "actor/grad_norm",
    "actor/lr",
    "response_length/mean",
    "prompt_length/mean",
    "perf/throughput",
    "perf/time_per_step",
    "timing_s/gen",
    "timing_s/step",
    "training/global_step",
}


def test_a_step_reports_upstreams_metrics(train):
    rows = read_rows(train("trainer.total_training_steps=2", "trainer.val_before_train=true") / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert [name for name in rows[0] if name.startswith("val-core/") and name.endswith("/acc/mean@1")]
    assert not UPSTREAM_NAMES - rows[1].keys()
    assert all(math.isfinite(value) for value in rows[1].values())


def test_the_same_seed_gives_the_same_run_and_another_does_not(train):
    runs = [
        reproducible(read_rows(train("trainer.total_training_steps=2", f"local.seed={seed}") / "metrics.jsonl"))
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]


@pytest.fixture
def scored(tmp_path):
    """The option for a reward of its own: one that differs between any two responses, whatever is asked."""
    source = tmp_path / "any_score.py"
    source.write_text("def compute_score(solution_str, **kwargs):\n    return sum(map(ord, solution_str)) % 7 / 7\n")
    return f"{reward_keys.FUNCTION}.path={source}"


@pytest.mark.parametrize("estimator", ["rloo", "remax", "group_rank"])
def test_estimators_give_a_step(train, scored, estimator):
    rows = read_rows(train(scored, f"algorithm.adv_estimator={estimator}") / "metrics.jsonl")
    assert math.isfinite(rows[-1]["actor/pg_loss"]) and rows[-1]["actor/grad_norm"] > 0


def test_the_first_step_is_no_distance_from_the_reference(train):
    run = train("actor_rollout_ref.actor.use_kl_loss=true", "algorithm.use_kl_in_reward=true")
    row = read_rows(run / "metrics.jsonl")[-1]
    assert row["actor/kl_loss"] == pytest.approx(0.0, abs=1e-6)
    assert row["actor/reward_kl_penalty"] == pytest.approx(0.0, abs=1e-6)


def test_a_learning_rate_that_spoils_the_weights_ends_the_run(train, scored, capsys):
    run = train(scored, "actor_rollout_ref.actor.optim.lr=1e30", "trainer.total_training_steps=2", code=1)
    assert "\nhint: lower actor_rollout_ref.actor.optim.lr" in capsys.readouterr().err
    assert not list(run.glob("global_step_*"))


def test_a_reward_that_is_nan_stops_the_run_and_is_named(train, tmp_path, capsys):
    source = tmp_path / "score.py"
    source.write_text("def compute_score(**kwargs):\n    return float('nan')\n")
    train(f"{reward_keys.FUNCTION}.path={source}", code=1)
    shown = capsys.readouterr().err
    assert "the reward is nan, not a finite number" in shown
    assert f"{source}:1" in shown


@pytest.mark.parametrize(
    ("text", "message", "code", "advice"),
    [
        (None, "is not a file", 2, "hint: "),
        ("def other(**kwargs):\n    return 1\n", "compute_score", 2, "hint: "),
        ("def compute_score(**kwargs)\n    return 1\n", "SyntaxError", 1, "score.py:1"),
    ],
)
def test_a_reward_file_that_cannot_be_used_is_an_error(train, tmp_path, capsys, text, message, code, advice):
    source = tmp_path / "score.py"
    if text is not None:
        source.write_text(text)
    train(f"{reward_keys.FUNCTION}.path={source}", code=code)
    shown = capsys.readouterr().err
    assert message in shown and "score.py" in shown and advice in shown


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.train_files=missing.jsonl", "no such file: missing.jsonl"),
        ("data.train_batch_size=1000", "data.train_batch_size"),
        ("trainer.total_trainign_steps=3", "total_training_steps"),
        ("trainer.total_training_steps=0", "must be at least 1"),
        ("actor_rollout_ref.rollout.top_p=1.5", "at most 1"),
        ("trainer.logger=[console,wandbb]", "is not a logger here"),
        ("actor_rollout_ref.rollout.val_kwargs.do_sample=true", "val_kwargs.temperature"),
        ("actor_rollout_ref.model.path=/no/such/model", "no such directory"),
    ],
)
def test_a_mistake_in_the_config_is_an_error_with_a_hint(train, capsys, override, message):
    train(override, code=2)
    shown = capsys.readouterr().err
    assert message in shown and "hint:" in shown and "Traceback" not in shown


def reproducible(rows):
    """Return what of the metrics does not depend on the machine and the clock."""
    return [{k: v for k, v in row.items() if not k.startswith(("perf/", "time", "timing_"))} for row in rows]
