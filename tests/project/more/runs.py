"""Runs of the whole program, further than a project's own tests go: what is saved when, and what is left behind."""

import json
import os
import shutil
import signal
import sys

import torch
from test_checkpoint import EVERY_STEP, names, resealed, run, runs, steps  # noqa: F401  (fixtures)
from test_trackers import SECRET, configured
from toy.run.checkpoint_files import MANIFEST
from toy.settings.setting import SETTINGS
from toy.tracking.run_tracker import RunTracker, read_rows

CHOICE = "actor_rollout_ref.actor.optim.optimizer"


def test_what_does_not_fit_a_run_is_an_error_with_a_hint(train, run, capsys):
    """Another optimizer, where the release has others, and a checkpoint without a model."""
    more = [EVERY_STEP, "trainer.total_training_steps=3"]
    if CHOICE in SETTINGS:
        train(*more, f"{CHOICE}=SGD", directory=run, code=2)
        shown = capsys.readouterr().err
        assert "not of this optimizer, SGD" in shown and "hint: " in shown
    shutil.rmtree(run / "global_step_1")  # to which it would go back
    (run / "global_step_2" / "actor").rename(run / "policy")
    train(*more, directory=run, code=2)
    shown = capsys.readouterr().err
    assert "is damaged: actor/" in shown and "is missing" in shown and "hint: " in shown


def test_the_best_checkpoint_is_that_of_the_best_mean(train):
    sampling = [f"actor_rollout_ref.rollout.val_kwargs.{value}" for value in ("n=2", "do_sample=true", "temperature=1")]
    run = train("trainer.save_freq=1", "trainer.test_freq=1", "data.val_max_samples=3", *sampling)
    (mean,) = [value for name, value in read_rows(run / "metrics.jsonl")[-1].items() if name.endswith("/acc/mean@2")]
    assert json.loads((run / "global_step_1" / "complete.json").read_text())["score"] == mean


def test_what_is_not_to_be_saved_is_not(train, capsys):
    run = train("local.save_last=false")
    assert not list(run.glob("*global_step*"))
    assert "not saved: local.save_last is false" in capsys.readouterr().out
    run = train("local.save_last=true", "trainer.val_only=true")
    assert not list(run.glob("*global_step*"))
    assert "saved" not in capsys.readouterr().out


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


FORMER_ENTRIES = {"step", "score", "finished", "files"}


def former(checkpoint):
    """Leave out of a manifest what those of former projects lack."""
    notes = json.loads((checkpoint / MANIFEST).read_text())
    (checkpoint / MANIFEST).write_text(json.dumps({key: notes[key] for key in FORMER_ENTRIES}))


def test_a_checkpoint_of_a_former_project_is_resumed(train, run):
    former(run / "global_step_2")
    train(EVERY_STEP, "trainer.total_training_steps=3", directory=run)
    assert steps(run) == [1, 2, 3]


def test_a_state_that_is_another_one_is_an_error_with_a_hint(train, run, capsys):
    torch.save({"random": [], "ids": 7}, run / "global_step_2" / "trainer.pt")
    resealed(run / "global_step_2")
    train(EVERY_STEP, "trainer.total_training_steps=3", directory=run, code=2)
    shown = capsys.readouterr().err
    assert f"cannot go on from {run}/global_step_2: its state does not fit this run (TypeError" in shown
    former(run / "global_step_2")
    file = run / "global_step_2" / "actor" / "optimizer.pt"
    file.write_bytes(bytes(file.stat().st_size))
    train(EVERY_STEP, "trainer.total_training_steps=3", directory=run, code=2)
    assert f"cannot read {file}: it is damaged, or was not written by torch.save\nhint: " in capsys.readouterr().err


def test_a_run_that_diverges_says_so_and_keeps_the_last_good_checkpoint(train, run, capsys):
    for rate in ("1e30", "1e15"):  # weights that are too large; weights that give no probabilities
        much = (f"actor_rollout_ref.actor.optim.lr={rate}", "trainer.total_training_steps=4")
        train(EVERY_STEP, *much, directory=run, code=1)
        shown = capsys.readouterr().err
        assert "error: the run has diverged: " in shown and "\nhint: lower actor_rollout_ref.actor.optim.lr" in shown
        assert f"actor/lr {float(rate):.3g}" in shown and f"saved at step 2 of 4: {run}/global_step_2" in shown
        assert names(run) == ["global_step_1", "global_step_2"]


def test_a_secret_in_the_command_is_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "main.py", f"judge.api_key={SECRET}"])
    with RunTracker(configured(), tmp_path, 1):
        pass
    (start,) = json.loads((tmp_path / "environment.json").read_text())["starts"]
    assert start["command"].endswith("main.py 'judge.api_key=***'")
    assert (start["end"]["outcome"], start["processes"]) == ("stopped", 1)
    assert not [path for path in tmp_path.iterdir() if SECRET in path.read_text()]
