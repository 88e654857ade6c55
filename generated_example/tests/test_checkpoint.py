# vextract:template base/tests/test_checkpoint.py - edit freely
"""A resumed run is the run that was not interrupted, bit for bit; a damaged checkpoint is named and not used."""

import errno
import json
import os
import shutil
import signal

import pytest
import torch
from test_trainer import reproducible

from generated_example.run.checkpoint_files import MANIFEST, what_is_wrong, write_manifest
from generated_example.tracking.run_tracker import read_rows
from generated_example.training.checkpoint import Checkpoints
from generated_example.training.trainer import LocalPPOTrainer

EVERY_STEP = "trainer.save_freq=1"
STEPS = "trainer.total_training_steps"


class OneProcess:
    """The processes of a run, of which there is one."""

    rank = 0

    def on_driver(self, function):
        return function()


def to_resume(run):
    return Checkpoints(run, OneProcess()).to_resume("auto", None)


def cut(file):
    """Take the last byte from a file."""
    file.write_bytes(file.read_bytes()[:-1])


def names(directory):
    return sorted(path.name for path in directory.glob("*global_step_*"))


def steps(run):
    return [row["step"] for row in read_rows(run / "metrics.jsonl")]


def resealed(checkpoint):
    """Give a changed checkpoint the manifest that fits."""
    notes = json.loads((checkpoint / MANIFEST).read_text())
    (checkpoint / MANIFEST).unlink()
    write_manifest(checkpoint, {key: notes[key] for key in ("step", "score", "finished")})


class Hostile:
    """Runs a command where it is unpickled."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A directory for the run that the tests have copies of."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def run(train, runs, tmp_path):
    """A run of two steps, each with its checkpoint."""
    if not (runs / "first").exists():
        train(EVERY_STEP, f"{STEPS}=2", directory=runs / "first")
    return shutil.copytree(runs / "first", tmp_path / "run")


def test_resuming_changes_nothing(train):
    options = (EVERY_STEP, "data.shuffle=true")
    whole, halves = train(*options, f"{STEPS}=4"), train(*options, f"{STEPS}=2")
    train(*options, f"{STEPS}=4", directory=halves)
    rows = [reproducible(read_rows(run / "metrics.jsonl")) for run in (whole, halves)]
    assert rows[0] == rows[1]
    last = "global_step_4/actor/model.safetensors"
    assert (whole / last).read_bytes() == (halves / last).read_bytes()


def test_files_that_are_cut_short_or_missing_are_named(run):
    for name in ("actor/model.safetensors", "actor/optimizer.pt", "data.pt", "trainer.pt"):
        file = run / "global_step_2" / name
        whole = file.read_bytes()
        for content in (whole[:-1], b"", None):
            file.unlink() if content is None else file.write_bytes(content)
            assert name in what_is_wrong(run / "global_step_2")
        file.write_bytes(whole)
    assert to_resume(run) == run / "global_step_2"


def test_a_damaged_checkpoint_is_set_aside(train, run):
    cut(run / "global_step_2" / "actor" / "model.safetensors")
    train(EVERY_STEP, f"{STEPS}=3", directory=run)
    assert steps(run) == [1, 2, 3] and names(run / "earlier_1") == ["global_step_2"]


def test_where_all_are_damaged_nothing_is_moved_and_the_error_says_what_to_do(train, run, capsys):
    for step in (1, 2):
        cut(run / f"global_step_{step}" / "trainer.pt")
    train(directory=run, code=2)
    shown = capsys.readouterr().err
    assert "global_step_1 is damaged: trainer.pt has " in shown and "hint: " in shown
    assert names(run) == ["global_step_1", "global_step_2"]


def test_a_run_that_was_killed_while_it_saved_goes_on(run):
    shutil.copytree(run / "global_step_2", run / ".writing_global_step_3")
    assert to_resume(run) == run / "global_step_2"
    (run / "global_step_2").rename(run / ".writing_global_step_2")
    assert to_resume(run) == run / "global_step_1"


def test_a_hostile_checkpoint_runs_no_code(train, run, tmp_path, capsys):
    torch.save({"random": Hostile(f"touch {tmp_path}/ran")}, run / "global_step_2" / "trainer.pt")
    resealed(run / "global_step_2")
    train(EVERY_STEP, f"{STEPS}=3", directory=run, code=2)
    reason = "it holds more than data, namely posix.system, and could run code\nhint: "
    assert f"cannot read {run}/global_step_2/trainer.pt: {reason}" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()


def test_a_checkpoint_is_a_model_that_transformers_loads(run):
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(run / "global_step_1" / "actor")
    tokenizer = transformers.AutoTokenizer.from_pretrained(run / "global_step_1" / "actor")
    ids = tokenizer("37=", return_tensors="pt")["input_ids"]
    assert model(ids).logits.shape == (1, 3, len(tokenizer))


def test_a_resumed_run_has_the_learning_rate_of_its_config(train):
    def options(rate, steps):
        optim = "actor_rollout_ref.actor.optim"
        return f"{optim}.lr={rate}", f"{optim}.lr_warmup_steps=10", f"{STEPS}={steps}"

    run = train("trainer.save_freq=2", *options(1e-3, 2))
    train("trainer.save_freq=2", *options(2e-3, 4), directory=run)
    rates = [row["actor/lr"] for row in read_rows(run / "metrics.jsonl")]
    assert rates == pytest.approx([0, 1e-4, 4e-4, 6e-4])


def test_what_a_run_does_not_continue_is_set_aside(train, run, capsys):
    chosen = ("trainer.resume_mode=resume_path", f"trainer.resume_from_path={run}/global_step_1")
    train(*chosen, f"{STEPS}=2", directory=run)
    assert names(run / "earlier_1") == ["global_step_2"]
    assert (run / "latest_checkpointed_iteration.txt").read_text() == "1"
    train(EVERY_STEP, "trainer.resume_mode=disable", directory=run)
    assert "earlier_2" in capsys.readouterr().err and names(run / "earlier_2") == ["global_step_1"]
    assert names(run) == ["global_step_1"] and steps(run) == [1]


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one_and_says_why(train, run, capsys):
    resource = pytest.importorskip("resource")
    size = (run / "global_step_1" / "actor" / "optimizer.pt").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, before[1]))  # the system takes no file that is as large
    try:
        train(EVERY_STEP, f"{STEPS}=3", directory=run, code=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    shown = capsys.readouterr().err
    assert f"cannot save a checkpoint in {run}: {os.strerror(errno.EFBIG)}\nhint: " in shown
    assert names(run) == ["global_step_1", "global_step_2"]


def test_a_finished_run_says_where_its_model_is_and_the_next_one_starts_anew(train, capsys):
    run = train("local.save_last=true")
    assert f"saved: {run}/global_step_1" in capsys.readouterr().out
    train("local.save_last=true", f"{STEPS}=2", directory=run)
    assert steps(run) == [1, 2] and names(run) == ["global_step_2"] and names(run / "earlier_1") == ["global_step_1"]


def test_an_interrupted_run_says_how_to_go_on(train, capsys, monkeypatch):
    method = LocalPPOTrainer.train_step

    def stopping(self, *arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return method(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(LocalPPOTrainer, "train_step", stopping)
        run = train(f"{STEPS}=2", code=130)
    shown = capsys.readouterr().out
    assert f"saved at step 1 of 2: {run}/global_step_1\nthe same command goes on from there" in shown
    train(f"{STEPS}=2", directory=run)
    assert steps(run) == [1, 2]
