# vextract:template - edit freely
"""Checkpoints that are written while training goes on, and those of which each process writes its share."""

import errno
import os
import random
import threading
import time

import pytest
import torch
from test_checkpoint import names, resealed, to_resume
from test_digests import flip
from test_trainer import reproducible

from __package__.errors import ConfigError
from __package__.export import main as export
from __package__.run.checkpoint_files import what_has_changed, what_is_wrong
from __package__.run.shards import read_whole
from __package__.tracking.run_tracker import read_rows
from __package__.training import checkpoint
from __package__.training.trainer import LocalPPOTrainer

EVERY_STEP, THREE = "trainer.save_freq=1", "trainer.total_training_steps=3"
BESIDE, SHARES = "local.checkpoint.asynchronous=true", "local.checkpoint.sharded=true"
pytest.importorskip("torch", "2.8", reason="torch.distributed.checkpoint has no safetensors before")


def weights(run, step):
    return (run / f"global_step_{step}" / "actor" / "model.safetensors").read_bytes()


def test_training_goes_on_while_a_checkpoint_is_written(train, monkeypatch):
    whole = train(EVERY_STEP, THREE)
    second_step_done = threading.Event()
    train_step, write = LocalPPOTrainer.train_step, checkpoint.save_state

    def step(self, *arguments):
        result = train_step(self, *arguments)
        if self.steps_done == 1:
            second_step_done.set()
        return result

    def write_then(state, file):
        assert second_step_done.wait(60), "training waits for a checkpoint"
        write(state, file)

    monkeypatch.setattr(LocalPPOTrainer, "train_step", step)
    monkeypatch.setattr(checkpoint, "save_state", write_then)
    run = train(EVERY_STEP, THREE, BESIDE)
    assert [weights(run, number) for number in (1, 2, 3)] == [weights(whole, number) for number in (1, 2, 3)]
    assert reproducible(read_rows(run / "metrics.jsonl")) == reproducible(read_rows(whole / "metrics.jsonl"))


def test_a_checkpoint_that_cannot_be_written_meanwhile_ends_the_run(train, capsys):
    resource = pytest.importorskip("resource")
    run = train(EVERY_STEP)
    size = (run / "global_step_1" / "actor" / "model.safetensors").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, before[1]))
    try:
        train(EVERY_STEP, BESIDE, "trainer.total_training_steps=50", directory=run, code=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    shown = capsys.readouterr().err
    assert f"cannot save a checkpoint in {run}: {os.strerror(errno.EFBIG)}\nhint: " in shown
    assert f"saved at step 1 of 50: {run}/global_step_1" in shown
    assert [path.name for path in run.iterdir() if "global_step" in path.name] == ["global_step_1"]


def test_an_error_does_not_keep_a_checkpoint_from_being_written(train, monkeypatch, capsys):
    train_step, write = LocalPPOTrainer.train_step, checkpoint.save_state

    def write_late(state, file):
        time.sleep(0.5)
        write(state, file)

    def step(self, *arguments):
        if self.steps_done == 1:
            raise KeyboardInterrupt
        return train_step(self, *arguments)

    monkeypatch.setattr(LocalPPOTrainer, "train_step", step)
    monkeypatch.setattr(checkpoint, "save_state", write_late)
    run = train(EVERY_STEP, THREE, BESIDE, code=130)
    assert what_has_changed(run / "global_step_1") is None
    assert f"saved at step 1 of 3: {run}/global_step_1" in capsys.readouterr().err


@pytest.fixture
def shares(train):
    """A run of two steps, each with a checkpoint of shares."""
    return train(EVERY_STEP, SHARES, "trainer.total_training_steps=2")


def test_a_run_goes_on_from_shares_as_from_whole_models(train, shares, tmp_path):
    whole = train(EVERY_STEP, THREE)
    train(EVERY_STEP, THREE, directory=shares)
    assert weights(shares, 3) == weights(whole, 3)
    assert reproducible(read_rows(shares / "metrics.jsonl")) == reproducible(read_rows(whole / "metrics.jsonl"))


def test_shares_become_a_model(train, shares, tmp_path):
    transformers = pytest.importorskip("transformers")
    assert export([str(shares), str(tmp_path / "out")]) == 0
    state = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").state_dict()
    tensors = read_whole(shares / "global_step_2" / "actor" / "weights")
    assert tensors.keys() <= state.keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in tensors.items())
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "out")("3")["input_ids"]
    train(f"actor_rollout_ref.model.path={shares}/global_step_2/actor")


def test_a_flipped_bit_in_any_share_is_named_and_the_checkpoint_before_taken(shares, capsys):
    files = [path for path in (shares / "global_step_2" / "actor").rglob("*") if path.parent.name != "actor"]
    assert len(files) == 4
    for file in files:
        flip_back = flip(file, random.Random(0))
        assert to_resume(shares) == shares / "global_step_1"
        assert file.relative_to(shares / "global_step_2").as_posix() in capsys.readouterr().err
        flip_back()


def test_a_share_that_is_missing_is_named(train, shares, capsys, tmp_path):
    (part,) = (shares / "global_step_2" / "actor" / "optimizer").glob("shard-*")
    content = part.read_bytes()
    part.unlink()
    assert f"actor/optimizer/{part.name} is missing" in what_is_wrong(shares / "global_step_2")
    resealed(shares / "global_step_2")  # as if it had never been there
    train(THREE, directory=shares, code=2)
    shown = capsys.readouterr().err
    assert f"{part.parent} holds 0 of the " in shown and "\nhint: " in shown
    part.write_bytes(content[:-8])
    resealed(shares / "global_step_2")
    train(THREE, directory=shares, code=2)
    assert f"cannot read {part.parent}: " in capsys.readouterr().err
    part.write_bytes(content)
    (model,) = (shares / "global_step_2" / "actor" / "weights").glob("shard-*")
    model.unlink()
    resealed(shares / "global_step_2")
    assert export([str(shares), str(tmp_path / "out")]) == 2
    assert f"{model.parent} holds 0 of the " in capsys.readouterr().err
    assert names(shares) == ["global_step_1", "global_step_2"]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"a": 1}', '{"a": [[2], "torch.load"]}', '{"a": [[999999999999], "torch.int8"]}']
)
def test_a_list_of_tensors_that_is_none_is_an_error(tmp_path, text):
    (tmp_path / "tensors.json").write_text(text)
    with pytest.raises(ConfigError, match="cannot read|holds 0 of"):
        read_whole(tmp_path)
