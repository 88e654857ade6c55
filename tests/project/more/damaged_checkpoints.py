"""Checkpoints that are damaged, of former projects, or of a run that diverges."""

import json
import shutil

import torch
from test_checkpoint import EVERY_STEP, names, resealed, run, runs, steps  # noqa: F401  (fixtures)
from toy.run.checkpoint_files import MANIFEST, what_is_wrong

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
