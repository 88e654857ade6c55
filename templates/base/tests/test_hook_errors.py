# vextract:template - edit freely
"""A hook that is wrong is named, with file and line, and with the sample that shows it."""

import asyncio
import importlib
import pickle
import sys

import pytest
import torch

from __package__ import custom, hooks, registries
from __package__.data.datasets import DataError
from __package__.hooks import HookError, call_reward, check_advantages
from __package__.rewards.manager import TextRewardManager
from __package__.rewards.scoring import ScoringError
from __package__.switches import HOOK_CHECKS
from __package__.training.batches import reward_metrics


@pytest.fixture
def batch(answered):
    return answered(["37=", "12=", "00="], ["48", "24", "11"], ["48", "23", "11"])


def test_a_good_reward_comes_through_after_one_call(batch, tokenizer):
    def compute_score(solution_str, ground_truth, **kwargs):
        return {"score": len(solution_str) / 2, "acc": solution_str == ground_truth}

    manager = TextRewardManager(tokenizer, num_examine=0, compute_score=compute_score)
    calls = []

    def counted(data, return_dict=False):
        calls.append(len(data))
        return manager(data, return_dict=return_dict)

    expected = manager(batch, return_dict=True)
    reward, extra = call_reward(counted, batch, tokenizer)
    assert calls == [3] and extra == expected["reward_extra_info"]
    assert reward.shape == (3, 4) and torch.equal(reward, expected["reward_tensor"])


def test_numbers_among_the_components_are_averaged():
    extra = {"score": [1.0, 0.5, 1.0], "acc": [True, False, True], "pred": ["48", "24", "11"], "none": []}
    assert reward_metrics(extra) == pytest.approx({"reward/score/mean": 2.5 / 3, "reward/acc/mean": 2 / 3})


def test_tensors_among_the_components_become_what_they_hold(batch, tokenizer):
    """They may have a gradient, or lie on another device, where NumPy cannot read them."""
    held = {"acc": torch.ones(3, requires_grad=True) * 0.5, "parts": [torch.zeros(2, requires_grad=True)] * 3}
    _, extra = call_reward(
        lambda data: {"reward_tensor": torch.ones(3, 4), "reward_extra_info": held}, batch, tokenizer
    )
    assert extra == {"acc": [0.5] * 3, "parts": [[0.0, 0.0]] * 3}
    assert reward_metrics(extra) == {"reward/acc/mean": 0.5}


def test_a_reward_that_changes_the_batch_changes_a_copy(batch, tokenizer):
    def changing(data, return_dict=False):
        data.batch["responses"].zero_()
        data.batch["acc"] = torch.ones(3)
        return torch.ones(3, 4)

    before = batch.batch["responses"].clone()
    call_reward(changing, batch, tokenizer)
    assert torch.equal(batch.batch["responses"], before) and "acc" not in batch.batch.keys()


def test_a_reward_may_be_a_coroutine(batch, tokenizer):
    calls = []

    async def waits(data, return_dict=False):
        calls.append(len(data))
        await asyncio.sleep(0)
        return {"reward_tensor": torch.ones(len(data), 4), "reward_extra_info": {"acc": [1.0] * len(data)}}

    reward, extra = call_reward(waits, batch, tokenizer)
    assert reward.shape == (3, 4) and extra == {"acc": [1.0] * 3} and calls == [3]


def test_a_reward_that_knows_its_bad_sample_has_it_shown(batch, tokenizer):
    calls = []

    def knows(data, return_dict=False):
        calls.append(len(data))
        raise ScoringError("the component 'style' of the reward raised KeyError: 'x'", "style.py:3", 2)

    with pytest.raises(HookError, match="the component 'style'") as caught:
        call_reward(knows, batch, tokenizer)
    assert calls == [3] and caught.value.hook_file == "style.py:3" and caught.value.sample["response"] == "11"


def test_an_exception_names_the_file(batch, tokenizer):
    calls = []

    def fails(data, return_dict=False):
        calls.append(len(data))
        raise ValueError("no such action")

    with pytest.raises(HookError) as caught:
        call_reward(fails, batch, tokenizer)
    assert "ValueError: no such action" in str(caught.value) and __file__ in caught.value.hook_file
    assert calls == [3] and caught.value.sample is None


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (torch.zeros(3), r"shape \(3,\), not \(batch size, response length\) = \(3, 4\)"),
        (torch.tensor([[0.0] * 4, [0.0, 0.0, float("nan"), 0.0], [0.0] * 4]), "is nan in 1 of 3 samples"),
        (None, "is a NoneType, not a tensor"),
        ({"rewards": 1}, "dict without reward_tensor"),
        ({"reward_tensor": torch.zeros(3, 4), "reward_extra_info": {"acc": [1.0]}}, "has 1 values for 3 samples"),
    ],
)
def test_a_reward_that_cannot_be_used(batch, tokenizer, result, message):
    with pytest.raises(HookError, match=message) as caught:
        call_reward(lambda data, return_dict=False: result, batch, tokenizer)
    assert __file__ in caught.value.hook_file
    if "1 of 3" in message:
        assert caught.value.sample["index"] == 1


def test_an_estimator_that_returns_nan_is_named(batch, monkeypatch):
    def broken(token_level_rewards, response_mask, index, config=None):
        return token_level_rewards / 0.0, token_level_rewards

    monkeypatch.setitem(registries.ADV_ESTIMATOR_REGISTRY, "broken", broken)
    batch.batch["advantages"] = torch.zeros(3, 4) / 0.0
    batch.batch["returns"] = torch.zeros(3, 4)
    with pytest.raises(HookError, match="advantages of the estimator 'broken' is nan") as caught:
        check_advantages(batch, "broken")
    assert __file__ in caught.value.hook_file


def test_errors_travel_between_processes():
    for error in (HookError("it is nan", "reward.py:3", {"index": 1}), DataError("no rows", "check data.train_files")):
        copy = pickle.loads(pickle.dumps(error))
        assert str(copy) == str(error) and vars(copy) == vars(error)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("x = 1\ndef f(:\n", "not valid Python: SyntaxError: invalid syntax\n  def f(:", 2),
        ("def f():\nreturn 1\n", "not valid Python: IndentationError", 2),
        ("\nimport no_such_module\n", "No module named 'no_such_module'\n  add the package that has it", 2),
        ("from ..vendored.algorithms.core_algos import nothing\n", "vextract explain says where", 1),
        (
            "try:\n    from ..vendored.algorithms.core_algos import nothing\n"
            "except ImportError:\n    from verl.trainer.ppo.core_algos import nothing\n",
            "cannot import name 'nothing'",
            2,
        ),
        ("x = 1 / 0\n", "cannot be imported: ZeroDivisionError: division by zero", 1),
    ],
)
def test_a_hook_that_cannot_be_imported_is_named(tmp_path, monkeypatch, text, message, line):
    (tmp_path / "broken_hook.py").write_text(text)
    monkeypatch.setattr(custom, "__path__", [*custom.__path__, str(tmp_path)])
    sys.dont_write_bytecode = True
    with pytest.raises(HookError) as caught, hooks.importing_hooks():
        importlib.import_module("__package__.custom.broken_hook")
    assert message in str(caught.value) and caught.value.hook_file == f"{tmp_path / 'broken_hook.py'}:{line}"


@pytest.mark.skipif(len(registries.POLICY_LOSS_REGISTRY) == 1, reason="this release of verl has no registry of losses")
@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda log_prob, **others: {}["x"], "raised KeyError: 'x'"),
        (lambda log_prob: None, "cannot be called: "),
        (lambda log_prob, **others: None, "returned nothing" if HOOK_CHECKS else "does not return the loss"),
        (lambda log_prob, **others: -log_prob.mean(), "returned" if HOOK_CHECKS else "does not return the loss"),
    ],
)
def test_a_loss_that_cannot_be_used_is_named(train, monkeypatch, capsys, loss, message):
    monkeypatch.setitem(registries.POLICY_LOSS_REGISTRY, "mine", loss)
    train("actor_rollout_ref.actor.policy_loss.loss_mode=mine", "data.env.task=succ2", code=1)
    shown = capsys.readouterr().err
    assert f"error: the policy loss 'mine' {message}" in shown and f"hook: {__file__}:" in shown
    assert "Traceback" not in shown
