"""Runs of the whole program, further than a project's own tests go: what is saved when, and what is left behind."""

import functools
import json
import math
import os
import shutil
import signal
import sys

import pytest
import torch
from conftest import CONFIG_DIRECTORY
from omegaconf import OmegaConf
from test_checkpoint import EVERY_STEP, names, resealed, run, runs, steps  # noqa: F401  (fixtures)
from test_trackers import SECRET, configured
from test_tracking import CONFIG, METRICS
from toy.output import install_command
from toy.rewards.manager import TextRewardManager
from toy.run.checkpoint_files import MANIFEST, what_is_wrong
from toy.settings import reward_keys, setting_checks
from toy.settings.loading import load_config
from toy.settings.setting import SETTINGS
from toy.settings.setting_checks import missing_loggers, unknown_loggers
from toy.tracking.run_tracker import LOGGERS, TRACKER_CLASSES, RunTracker, read_rows
from toy.training import validation


def test_what_is_measured_of_the_most_samples_is_at_the_core(monkeypatch):
    """Also where an owner's measures are not named after a number of samples."""
    measured = {"acc": {"mean@1": 0.5, "mean@2": 0.6, "best@2/mean": 0.7}, "reward": {"mean": 1.0}}
    monkeypatch.setattr(validation, "process_validation_metrics", lambda *_: {0: measured})
    found = validation.validation_metrics([{"data_source": "toy", "uid": 0}], {"acc": [1]})
    assert [name for name in found if name.startswith("val-core/")] == [
        "val-core/toy/acc/mean@2",
        "val-core/toy/acc/best@2/mean",
    ]
    monkeypatch.setattr(validation, "process_validation_metrics", lambda *_: {0: {"reward": {"mean": 1.0}}})
    found = validation.validation_metrics([{"data_source": "toy", "uid": 0}], {"reward": [1.0]})
    assert list(found) == ["val-core/toy/reward/mean"]


def test_verls_own_function_is_no_owners_however_it_is_wrapped():
    def default_compute_score(data_source, solution_str, ground_truth):
        return 1.0

    wrapped = functools.partial(lambda function, more, **given: function(**given), default_compute_score, {})
    manager = type("Mine", (TextRewardManager,), {"score": lambda self, **row: 0.0})(None, 0, wrapped)
    assert manager.compute_score == manager.score


def test_samples_of_training_are_recorded_with_their_rewards(train):
    run = train("trainer.total_training_steps=2", "local.log_train_generations=3", "trainer.test_freq=-1")
    rows = [row for row in read_rows(run / "generations.jsonl") if row["split"] == "train"]
    assert {row["step"] for row in rows} == {1, 2} and 2 <= len(rows) <= 6
    assert all(row["prompt"] and math.isfinite(row["score"]) and row["components"] for row in rows)
    assert "critic/rewards/frac_zero_std" in read_rows(run / "metrics.jsonl")[-1]
    none = train("trainer.total_training_steps=1", "local.log_train_generations=0", "trainer.test_freq=-1")
    assert read_rows(none / "generations.jsonl") == []


@pytest.mark.parametrize("arguments", ["response, truth", "data_source, solution_str, ground_truth, extra_info, other"])
def test_a_reward_function_with_other_arguments_is_named(train, tmp_path, capsys, arguments):
    source = tmp_path / "score.py"
    source.write_text(f"def compute_score({arguments}):\n    return 1\n")
    train(f"{reward_keys.FUNCTION}.path={source}", code=2)  # before anything is generated
    shown = capsys.readouterr().err
    assert "cannot be called: " in shown and "solution_str" in shown and f"{source}:1" in shown


def test_a_reward_function_may_take_settings_of_its_own(train, tmp_path):
    source = tmp_path / "score.py"
    source.write_text("def compute_score(solution_str, bonus, **others):\n    return bonus\n")
    train(f"{reward_keys.FUNCTION}.path={source}", f"+{reward_keys.FUNCTION}.reward_kwargs.bonus=1")


def test_an_overlong_buffer_longer_than_responses_is_an_error_with_a_hint(train, capsys):
    train(f"{reward_keys.OVERLONG}.enable=true", f"{reward_keys.OVERLONG}.len=500", code=2)
    shown = capsys.readouterr().err
    assert f"{reward_keys.OVERLONG}.len is 500" in shown and "hint: " in shown


def test_a_setting_that_only_a_preset_has_can_be_given_with_it(tmp_path):
    copy = shutil.copytree(CONFIG_DIRECTORY, tmp_path / "config")
    (copy / "preset" / "mine.yaml").write_text("data:\n  apply_chat_template_kwargs:\n    of_mine: 1\n")
    config = load_config(copy, ["preset=mine", "data.apply_chat_template_kwargs.of_mine=2"])
    assert config.data.apply_chat_template_kwargs.of_mine == 2


def test_a_component_may_be_a_list_and_have_the_name_of_a_column(train, tmp_path):
    scores = []
    for components in ("", ", parts=list(solution_str), none=None, uid='mine'"):
        source = tmp_path / f"score_{len(scores)}.py"
        result = f"dict(score=sum(map(ord, solution_str)) % 7 / 7{components})"
        source.write_text(f"def compute_score(solution_str, **kwargs):\n    return {result}\n")
        run = train(f"{reward_keys.FUNCTION}.path={source}", "preset=grpo", "actor_rollout_ref.rollout.n=4")
        scores.append(read_rows(run / "metrics.jsonl")[-1]["critic/advantages/max"])
    assert scores[0] == scores[1] > 0


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


def test_a_checkpoint_can_be_validated_alone(train, run):
    train(EVERY_STEP, "trainer.val_only=true", directory=run)
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


FORMER_ENTRIES = {"step", "score", "finished", "files"}


def former(checkpoint):
    """Leave out of a manifest what those of former projects lack."""
    notes = json.loads((checkpoint / MANIFEST).read_text())
    (checkpoint / MANIFEST).write_text(json.dumps({key: notes[key] for key in FORMER_ENTRIES}))


def test_a_manifest_that_is_none_is_damage(tmp_path):
    for text in ("", "null", '{"files": 1}'):
        (tmp_path / MANIFEST).write_text(text)
        assert MANIFEST in what_is_wrong(tmp_path)


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


def test_a_linked_checkpoint_is_used_and_only_its_link_removed(train, run, tmp_path):
    shutil.move(run / "global_step_1", tmp_path / "elsewhere")
    (run / "global_step_1").symlink_to(tmp_path / "elsewhere")
    train(EVERY_STEP, "trainer.max_actor_ckpt_to_keep=1", "trainer.total_training_steps=3", directory=run)
    assert names(run) == ["global_step_3"]
    assert (tmp_path / "elsewhere" / MANIFEST).is_file()


def test_a_run_that_diverges_says_so_and_keeps_the_last_good_checkpoint(train, run, capsys):
    for rate in ("1e30", "1e15"):  # weights that are too large; weights that give no probabilities
        much = (f"actor_rollout_ref.actor.optim.lr={rate}", "trainer.total_training_steps=4")
        train(EVERY_STEP, *much, directory=run, code=1)
        shown = capsys.readouterr().err
        assert "error: the run has diverged: " in shown and "\nhint: lower actor_rollout_ref.actor.optim.lr" in shown
        assert f"actor/lr {float(rate):.3g}" in shown and f"saved at step 2 of 4: {run}/global_step_2" in shown
        assert names(run) == ["global_step_1", "global_step_2"]


def test_what_models_write_comes_back_as_it_was(tmp_path):
    odd = "a\u2028b\x85c\x0bd\r\n</script> é 🦙 \ud800"
    with RunTracker(CONFIG, tmp_path, 1) as tracker:
        tracker.log_generations([{"response": odd, "score": math.nan, "components": {"acc": math.inf}}], 1)
    with (tmp_path / "generations.jsonl").open("ab") as file:
        file.write('{"step": 2, "response": "é'.encode()[:-1])  # killed within a character
    rows = read_rows(tmp_path / "generations.jsonl")
    assert rows == [{"step": 1, "response": odd, "score": None, "components": {"acc": None}}]


def test_only_rank_0_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with RunTracker(CONFIG, tmp_path / "run", 1) as tracker:
        tracker.log(METRICS, 1)
        tracker.log_generations([{"prompt": "1"}], 1)
        tracker.message("hello")
    assert not (tmp_path / "run").exists()


def test_loggers_are_known_and_installed(monkeypatch):
    assert list(unknown_loggers(configured("console", "file"))) == []
    assert list(unknown_loggers(OmegaConf.create({"trainer": {"logger": "console"}}))) == []
    ((text, hint),) = unknown_loggers(configured("wandbb"))
    assert "'wandbb'" in text and "wandb" in hint
    monkeypatch.setattr(setting_checks, "is_installed", lambda package: False)
    found = list(missing_loggers(configured(*LOGGERS)))
    assert [hint for _, hint in found] == [install_command(tracker.requirement) for tracker in TRACKER_CLASSES.values()]


def test_a_secret_in_the_command_is_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "main.py", f"judge.api_key={SECRET}"])
    with RunTracker(configured(), tmp_path, 1):
        pass
    (start,) = json.loads((tmp_path / "environment.json").read_text())["starts"]
    assert start["command"].endswith("main.py 'judge.api_key=***'")
    assert (start["end"]["outcome"], start["processes"]) == ("stopped", 1)
    assert not [path for path in tmp_path.iterdir() if SECRET in path.read_text()]
