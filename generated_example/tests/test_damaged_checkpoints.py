# vextract:template base/tests/test_damaged_checkpoints.py.jinja - edit freely
"""A checkpoint that is damaged, half renamed, hostile or of broken weights is seen, named and not used."""

import json
import os
import random
import shutil

import pytest
import torch

from generated_example.errors import ConfigError
from generated_example.export import find_checkpoint
from generated_example.run.checkpoint import Checkpoints
from generated_example.run.checkpoint_files import MANIFEST, check_storable, recover, what_is_wrong, write_manifest
from generated_example.tracking.run_tracker import read_rows

EVERY_STEP = "trainer.save_freq=1"
FORMER_ENTRIES = {"step", "score", "finished", "files"}


class OneProcess:
    """The processes of a run, of which there is one."""

    rank = 0

    def on_driver(self, function):
        return function()


def to_resume(run):
    return Checkpoints(run, OneProcess()).to_resume("auto", None)


def flip(file, rng):
    """Flip one bit, and return a function that flips it back."""
    data = bytearray(file.read_bytes())
    place, bit = rng.randrange(len(data)), 1 << rng.randrange(8)

    def write():
        data[place] ^= bit
        file.write_bytes(data)

    write()
    return write


def names(directory):
    return sorted(path.name for path in directory.glob("*global_step_*"))


def former(checkpoint):
    """Leave out of a manifest what those of former projects lack."""
    notes = json.loads((checkpoint / MANIFEST).read_text())
    (checkpoint / MANIFEST).write_text(json.dumps({key: notes[key] for key in FORMER_ENTRIES}))


def resealed(checkpoint):
    """Give a changed checkpoint the manifest that fits."""
    notes = json.loads((checkpoint / MANIFEST).read_text())
    (checkpoint / MANIFEST).unlink()
    write_manifest(checkpoint, {key: notes[key] for key in FORMER_ENTRIES - {"files"}})


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
        train(EVERY_STEP, "trainer.total_training_steps=2", directory=runs / "first")
    return shutil.copytree(runs / "first", tmp_path / "run")


def test_a_flipped_bit_in_any_file_is_named_and_the_checkpoint_before_taken(run, capsys):
    rng = random.Random(0)
    files = [path for path in (run / "global_step_2").rglob("*") if path.is_file()]
    for file in files:
        flip_back = flip(file, rng)
        capsys.readouterr()
        assert to_resume(run) == run / "global_step_1"
        shown = capsys.readouterr().err
        assert f"global_step_2 is damaged, and is in {run}/damaged_1 now: " in shown
        assert file.relative_to(run / "global_step_2").as_posix() in shown
        (run / "damaged_1" / "global_step_2").rename(run / "global_step_2")
        (run / "damaged_1").rmdir()
        flip_back()
    assert to_resume(run) == run / "global_step_2"


def test_files_that_are_cut_short_empty_missing_or_of_another_step_are_named(run):
    for name in ("actor/model.safetensors", "actor/optimizer.pt", "data.pt", "trainer.pt"):
        file, other = run / "global_step_2" / name, run / "global_step_1" / name
        whole = file.read_bytes()
        for content in (whole[:-1], whole[: len(whole) // 2], b"", None):
            file.unlink() if content is None else file.write_bytes(content)
            assert name in what_is_wrong(run / "global_step_2", digests=True)
        shutil.copyfile(other, file)
        assert name in what_is_wrong(run / "global_step_2", digests=True)
        file.write_bytes(whole)
    assert what_is_wrong(run / "global_step_2", digests=True) is None
    shutil.copytree(run / "global_step_1", run / "global_step_3")
    assert "of step 1" in what_is_wrong(run / "global_step_3")


def test_a_manifest_that_is_none_is_damage(tmp_path):
    for text in ("", "null", '{"files": 1}'):
        (tmp_path / MANIFEST).write_text(text)
        assert MANIFEST in what_is_wrong(tmp_path)


def test_a_run_goes_on_from_the_checkpoint_before_and_keeps_the_damaged_one(train, run, capsys):
    flip(run / "global_step_2" / "actor" / "model.safetensors", random.Random(1))
    assert find_checkpoint(run) == run / "global_step_1"
    with pytest.raises(ConfigError, match="model.safetensors"):
        find_checkpoint(run / "global_step_2")
    train(EVERY_STEP, "trainer.total_training_steps=3", directory=run)
    assert [row["step"] for row in read_rows(run / "metrics.jsonl")] == [1, 2, 3]
    assert names(run) == ["global_step_1", "global_step_2", "global_step_3"]
    assert names(run / "damaged_1") == ["global_step_2"]


def test_where_all_are_damaged_nothing_is_moved_and_the_error_says_what_to_do(train, run, capsys):
    for step in (1, 2):
        flip(run / f"global_step_{step}" / "trainer.pt", random.Random(step))
    for _ in range(2):
        train(directory=run, code=2)
        shown = capsys.readouterr().err
        assert "global_step_1: trainer.pt has changed since it was written" in shown and "hint: " in shown
    assert names(run) == ["global_step_1", "global_step_2"]
    train("trainer.resume_mode=disable", directory=run)
    assert names(run / "earlier_1") == ["global_step_1", "global_step_2"]


def test_a_model_out_of_a_damaged_checkpoint_is_not_trained(train, run, capsys):
    flip(run / "global_step_2" / "actor" / "model.safetensors", random.Random(2))
    train(f"actor_rollout_ref.model.path={run}/global_step_2/actor", code=2)
    assert "actor/model.safetensors has changed since it was written" in capsys.readouterr().err


def test_a_kill_between_two_renames_loses_nothing(run, capsys):
    path = run / "global_step_2"
    writing, outdated = run / ".writing_global_step_2", run / ".outdated_global_step_2"
    shutil.copytree(path, writing)
    path.rename(outdated)
    assert to_resume(run) == path  # killed between the two renames
    assert names(run) == ["global_step_1", "global_step_2"]
    path.rename(outdated)
    assert recover(run) == [path]
    path.rename(writing)  # killed before the first one
    assert to_resume(run) == path
    shutil.copytree(path, outdated)  # killed after the second one
    assert to_resume(run) == path
    assert names(run) == ["global_step_1", "global_step_2"]
    shutil.copytree(path, writing)
    (writing / "data.pt").unlink()  # killed while writing
    path.rename(outdated)
    assert to_resume(run) == path


def test_a_hostile_checkpoint_ends_a_run_that_resumes_from_it(train, run, tmp_path, capsys):
    torch.save({"random": Hostile(f"touch {tmp_path}/ran")}, run / "global_step_2" / "trainer.pt")
    resealed(run / "global_step_2")
    train(EVERY_STEP, "trainer.total_training_steps=3", directory=run, code=2)
    shown = capsys.readouterr().err
    reason = "it holds more than data, namely posix.system, and could run code\nhint: "
    assert f"cannot read {run}/global_step_2/trainer.pt: {reason}" in shown
    assert not (tmp_path / "ran").exists()


def test_a_checkpoint_of_a_former_project_is_resumed(train, run):
    former(run / "global_step_2")
    train(EVERY_STEP, "trainer.total_training_steps=3", directory=run)
    assert [row["step"] for row in read_rows(run / "metrics.jsonl")] == [1, 2, 3]


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


def test_what_no_checkpoint_can_hold_is_said_after_the_first_step():
    check_storable({"dataset_state": {"numbers": [1, 2.0, None, (3, "x")], "set": {1}, "bytes": b"1"}})
    with pytest.raises(ConfigError, match="state_dict.*OneProcess"):
        check_storable({"dataset_state": OneProcess()})
    with pytest.raises(ConfigError, match="state_dict"):
        check_storable({"dataset_state": lambda: 0})


def test_a_run_that_diverges_says_so_and_keeps_the_last_good_checkpoint(train, run, capsys):
    for rate in ("1e30", "1e15"):  # weights that are too large; weights that give no probabilities
        much = (f"actor_rollout_ref.actor.optim.lr={rate}", "trainer.total_training_steps=4")
        train(EVERY_STEP, *much, directory=run, code=1)
        shown = capsys.readouterr().err
        assert "error: the run has diverged: " in shown and "\nhint: lower actor_rollout_ref.actor.optim.lr" in shown
        assert f"actor/lr {float(rate):.3g}" in shown and f"saved at step 2 of 4: {run}/global_step_2" in shown
        assert names(run) == ["global_step_1", "global_step_2"]
