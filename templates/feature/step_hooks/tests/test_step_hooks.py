# vextract:template - edit freely
"""Functions that come before a phase of the step."""

from types import SimpleNamespace

import pytest
import torch
from conftest import CONFIG_DIRECTORY

from __package__.errors import ConfigError
from __package__.hooks import PREPARING, AtHand, HookError, before_phase, prepare
from __package__.settings.loading import load_config
from __package__.training.trainer import LocalPPOTrainer
from __package__.vendored.protocol import DataProto


def test_they_add_columns_keep_what_they_like_and_are_named_where_they_raise(monkeypatch):
    monkeypatch.setitem(PREPARING, "update", [])

    @before_phase("update")
    def count(now):
        now.kept.calls = getattr(now.kept, "calls", 0) + 1
        now.batch.batch["weight"] = torch.full((2, 3), float(now.kept.calls))

    now = AtHand(DataProto.from_dict({"responses": torch.zeros(2, 3)}), None, 1, 9, None, SimpleNamespace())
    for calls in (1, 2):
        prepare("update", now)
        assert now.column("weight").eq(calls).all()

    @before_phase("update")
    def fail(now):
        return now.column("nothing")

    with pytest.raises(HookError, match="fail, before the update, raised KeyError") as caught:
        prepare("update", now)
    assert "test_step_hooks.py" in str(caught.value)


def test_a_step_goes_on_with_the_rows_that_they_return_and_draws_others_for_none(tmp_path, monkeypatch):
    monkeypatch.setitem(PREPARING, "advantages", [])
    sizes = iter([0, 8, 0, 0])

    @before_phase("advantages")
    def take(now):
        return now.batch[: next(sizes)]

    given = ["trainer.total_training_steps=2", "data.train_batch_size=8", "data.train_max_samples=16"]
    given += ["trainer.total_epochs=1", "actor_rollout_ref.actor.ppo_mini_batch_size=8"]
    config = load_config(CONFIG_DIRECTORY, [*given, f"trainer.default_local_dir={tmp_path}", "trainer.logger=[]"])
    with LocalPPOTrainer(config) as trainer:
        steps = trainer.steps()
        assert len(next(steps).batch) == 8
        assert trainer.steps_done == 1
        with pytest.raises(ConfigError, match="kept nothing of 2 batches"):
            next(steps)
    more = AtHand(DataProto.from_dict({"responses": torch.zeros(2, 3)}), None, 1, 9, None)
    before_phase("update")(lambda now: DataProto.concat([now.batch, now.batch]))
    with pytest.raises(HookError, match="it returned 4 rows, and was given 2"):
        prepare("update", more)
    PREPARING["update"].pop()
