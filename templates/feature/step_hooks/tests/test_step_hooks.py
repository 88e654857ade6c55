# vextract:template - edit freely
"""Functions that come before a phase of the step."""

from types import SimpleNamespace

import pytest
import torch

from __package__.hooks import PREPARING, AtHand, HookError, before_phase, prepare
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
