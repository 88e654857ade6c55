"""Checkpoints of a project, further than its own tests go: what is saved when, and what a run is told."""

import json
import os
import signal

import pytest
from test_checkpoint import steps
from toy.settings.setting import SETTINGS
from toy.tracking.run_tracker import read_rows

CHOICE = "actor_rollout_ref.actor.optim.optimizer"


@pytest.mark.skipif(CHOICE not in SETTINGS, reason="this release has AdamW alone")
def test_another_optimizer_is_an_error_with_a_hint(train, capsys):
    run = train("trainer.save_freq=1")
    train("trainer.total_training_steps=2", f"{CHOICE}=SGD", directory=run, code=2)
    shown = capsys.readouterr().err
    assert "not of this optimizer, SGD" in shown and "hint: " in shown


def test_a_model_that_a_checkpoint_lacks_is_an_error_with_a_hint(train, capsys):
    run = train("trainer.save_freq=1")
    (run / "global_step_1" / "actor").rename(run / "policy")
    train("trainer.total_training_steps=2", directory=run, code=2)
    shown = capsys.readouterr().err
    assert "is damaged: actor/" in shown and "is missing" in shown and "hint: " in shown


def test_the_coefficient_of_a_resumed_run_is_that_of_its_config(train):
    options = ("trainer.save_freq=1", "algorithm.use_kl_in_reward=true")
    run = train(*options)
    changed = ("trainer.total_training_steps=2", "algorithm.kl_ctrl.kl_coef=0.5")
    train(*options, *changed, directory=run)
    rows = read_rows(run / "metrics.jsonl")
    assert [row["actor/reward_kl_penalty_coeff"] for row in rows] == [0.001, 0.5]


def test_the_best_checkpoint_is_that_of_the_best_mean(train):
    sampling = [f"actor_rollout_ref.rollout.val_kwargs.{value}" for value in ("n=2", "do_sample=true", "temperature=1")]
    run = train("trainer.save_freq=1", "trainer.test_freq=1", "data.val_max_samples=3", *sampling)
    (mean,) = [value for name, value in read_rows(run / "metrics.jsonl")[-1].items() if name.endswith("/acc/mean@2")]
    assert json.loads((run / "global_step_1" / "complete.json").read_text())["score"] == mean


def test_a_directory_that_cannot_be_written_to_is_an_error_with_a_hint(train, tmp_path, capsys):
    (tmp_path / "file").touch()
    train(directory=tmp_path / "file", code=2)
    assert f"cannot write to {tmp_path / 'file'}: " in capsys.readouterr().err


def test_what_is_not_to_be_saved_is_not(train, capsys):
    run = train("local.save_last=false")
    assert not list(run.glob("*global_step*"))
    assert "not saved: local.save_last is false" in capsys.readouterr().out
    run = train("local.save_last=true", "trainer.val_only=true")
    assert not list(run.glob("*global_step*"))
    assert "saved" not in capsys.readouterr().out


def test_a_checkpoint_can_be_validated_alone(train):
    run = train("trainer.save_freq=1")
    train("trainer.save_freq=1", "trainer.val_only=true", directory=run)
    assert any(name.startswith("val-core/") for name in read_rows(run / "metrics.jsonl")[-1])


def test_a_checkpoint_has_the_score_of_its_own_weights(train):
    run = train("local.save_last=true", "trainer.val_before_train=true")
    assert json.loads((run / "global_step_1" / "complete.json").read_text())["score"] is None


def test_an_interrupted_run_says_how_to_go_on(train, capsys, monkeypatch):
    """Also before its first step, and in the middle of one; the project's own test stops it between two."""
    from toy.training import trainer

    validate = trainer.LocalPPOTrainer.validate

    def stopping(self, *arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return validate(self, *arguments)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(trainer.LocalPPOTrainer, "validate", stopping)
        run = train("trainer.val_before_train=true", code=130)
    assert "no checkpoint was saved: the same command starts from the first step" in capsys.readouterr().out
    assert steps(run) == [0]
    run = train("trainer.save_freq=1")
    with monkeypatch.context() as patched:
        patched.setattr(trainer, "compute_data_metrics", interrupted)
        train("trainer.total_training_steps=3", directory=run, code=130)
    assert f"interrupted\nsaved at step 1 of 3: {run}/global_step_1\n" in capsys.readouterr().err
    train("trainer.total_training_steps=3", directory=run)
    assert steps(run) == [1, 2, 3]
