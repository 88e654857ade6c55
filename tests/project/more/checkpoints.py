"""Checkpoints of a project, further than its own tests go: what is saved when, and what a run is told."""

import errno
import json
import os
import signal

import pytest
from toy.settings.setting import SETTINGS
from toy.tracking.run_tracker import read_rows

CHOICE = "actor_rollout_ref.actor.optim.optimizer"


def test_two_runs_do_not_share_a_directory(train, capsys, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr("toy.run.process.PATIENCE", 0)
    run = train()
    with (run / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        train(directory=run, code=2)
    shown = capsys.readouterr().err
    assert f"another run is going on in {run} (process {os.getpid()} on " in shown and "hint: " in shown
    train("trainer.total_training_steps=2", directory=run)


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


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one_and_says_why(train, capsys):
    resource = pytest.importorskip("resource")
    run = train("trainer.save_freq=1")
    parts = run / "global_step_1" / "actor"
    sizes = [(parts / name).stat().st_size for name in ("model.safetensors", "optimizer.pt")]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in sizes:  # the system takes no file that is as large: in torch's words, and in those of safetensors
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, before[1]))
        try:
            train("trainer.save_freq=1", "trainer.total_training_steps=3", directory=run, code=1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        shown = capsys.readouterr().err
        assert f"cannot save a checkpoint in {run}: {os.strerror(errno.EFBIG)}\nhint: " in shown
        assert [path.name for path in run.iterdir() if "global_step" in path.name] == ["global_step_1"]
    train("trainer.save_freq=1", "trainer.total_training_steps=2", directory=run)
    assert [row["step"] for row in read_rows(run / "metrics.jsonl")] == [1, 2]


def test_a_directory_that_cannot_be_written_to_is_an_error_with_a_hint(train, tmp_path, capsys):
    (tmp_path / "file").touch()
    train(directory=tmp_path / "file", code=2)
    assert f"cannot write to {tmp_path / 'file'}: " in capsys.readouterr().err


SAVE_LAST = "local.save_last=true"


def steps(run):
    return [row["step"] for row in read_rows(run / "metrics.jsonl")]


def test_a_finished_run_has_saved_its_model_and_says_where(train, capsys):
    run = train(SAVE_LAST, "trainer.total_training_steps=2")
    shown = capsys.readouterr().out
    assert [path.name for path in run.glob("global_step_*")] == ["global_step_2"]
    assert f"saved: {run}/global_step_2\n" in shown
    assert f"{run}/global_step_2" in shown.partition("saved: ")[2]
    further = ("trainer.resume_mode=resume_path", f"trainer.resume_from_path={run}/global_step_2")
    train(SAVE_LAST, *further, "trainer.total_training_steps=3", directory=run)
    assert steps(run) == [1, 2, 3]


def test_what_is_not_to_be_saved_is_not(train, capsys):
    run = train("local.save_last=false")
    assert not list(run.glob("*global_step*"))
    assert "not saved: local.save_last is false" in capsys.readouterr().out
    run = train(SAVE_LAST, "trainer.val_only=true")
    assert not list(run.glob("*global_step*"))
    assert "saved" not in capsys.readouterr().out


def test_a_checkpoint_can_be_validated_alone(train):
    run = train("trainer.save_freq=1")
    train("trainer.save_freq=1", "trainer.val_only=true", directory=run)
    assert any(name.startswith("val-core/") for name in read_rows(run / "metrics.jsonl")[-1])


def test_a_checkpoint_has_the_score_of_its_own_weights(train):
    run = train(SAVE_LAST, "trainer.val_before_train=true")
    assert json.loads((run / "global_step_1" / "complete.json").read_text())["score"] is None


def test_an_interrupted_run_says_how_to_go_on(train, capsys, monkeypatch):
    def stopping_in(name):
        method = getattr(LocalPPOTrainer, name)

        def stopping(self, *arguments):
            os.kill(os.getpid(), signal.SIGTERM)
            return method(self, *arguments)

        return name, stopping

    from toy.training import trainer
    from toy.training.trainer import LocalPPOTrainer

    steps_of_run = ("trainer.total_training_steps=3",)
    with monkeypatch.context() as patched:
        patched.setattr(LocalPPOTrainer, *stopping_in("validate"))
        run = train(*steps_of_run, "trainer.val_before_train=true", code=130)
    assert "no checkpoint was saved: the same command starts from the first step" in capsys.readouterr().out
    assert steps(run) == [0]
    with monkeypatch.context() as patched:
        patched.setattr(LocalPPOTrainer, *stopping_in("train_step"))
        run = train(*steps_of_run, code=130)
    shown = capsys.readouterr().out
    assert f"saved at step 1 of 3: {run}/global_step_1\nthe same command goes on from there" in shown
    with monkeypatch.context() as patched:
        patched.setattr(trainer, "compute_data_metrics", lambda *_, **__: raise_(KeyboardInterrupt()))
        train(*steps_of_run, directory=run, code=130)
    assert f"interrupted\nsaved at step 1 of 3: {run}/global_step_1\n" in capsys.readouterr().err
    train(*steps_of_run, directory=run)
    assert steps(run) == [1, 2, 3]


def raise_(error):
    raise error
