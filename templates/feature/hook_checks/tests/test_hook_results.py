# vextract:template - edit freely
"""A policy loss or an estimator of one's own that is wrong is named at its first call, and what is expected is said."""

import textwrap

import pytest
import torch

from __package__ import hooks, registries
from __package__.hooks import HookError
from __package__.training import hook_results
from __package__.vendored.algorithms import core_algos

METRICS = hook_results._with_metrics()


def returned(loss, metrics):
    """Return what a policy loss of this release returns."""
    return (loss, metrics) if METRICS else (loss, *[torch.tensor(0.0)] * 3)


def arguments():
    ones = torch.ones(2, 3)
    log_prob = torch.zeros(2, 3, requires_grad=True) * 1.0
    return {"old_log_prob": ones * 0, "log_prob": log_prob, "advantages": ones.clone(), "response_mask": ones.clone()}


def call(loss):
    registries.POLICY_LOSS_REGISTRY["mine"] = loss
    try:
        with hooks.calling(hooks.LOSS, "mine"):
            return registries.POLICY_LOSS_REGISTRY["mine"](**arguments(), config=None)
    finally:
        assert registries.POLICY_LOSS_REGISTRY.pop("mine") is loss


def test_a_good_loss_comes_through():
    loss, *_ = call(lambda log_prob, **others: returned(log_prob.sum().half(), {"actor/mine": 1.0, "n": [1, 2]}))
    assert loss.requires_grad and loss.dtype == torch.float16


def changing(log_prob, advantages, **others):
    advantages.add_(1.0)
    return returned(log_prob.mean(), {})


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda log_prob, **others: returned(log_prob.sum() / 0, {}), "as loss, not a finite number"),
        (lambda log_prob, **others: returned(log_prob.detach().sum(), {}), "a loss without a gradient"),
        (lambda log_prob, **others: returned(log_prob, {}), r"a loss of shape \(2, 3\), not one number"),
        (lambda log_prob, **others: returned(log_prob.sum().item(), {}), "a float as loss, not a tensor"),
        (lambda log_prob, **others: returned((log_prob * 0).sum().long(), {}), "a loss of dtype torch.int64"),
        (lambda log_prob, **others: log_prob.sum(), "returned a Tensor, not "),
        (lambda log_prob, **others: None, "returned nothing, not "),
        (lambda log_prob, **others: (log_prob.sum(), {}, 1), r"a tuple of 3 \(Tensor, dict, int\), not "),
        (lambda log_prob: None, r"cannot be called: .*\n  it is called with old_log_prob"),
        (lambda log_prob, **others: {}["x"], "raised KeyError: 'x'"),
        (lambda log_prob, **others: core_algos.agg_loss(1, 2, 3, 4, 5), "raised TypeError"),
        (changing, "changes advantages in place"),
    ],
)
def test_a_loss_that_cannot_be_used_is_named(loss, message):
    with pytest.raises(HookError, match=message) as caught:
        call(loss)
    assert caught.value.hook_file.startswith(f"{__file__}:") and "the policy loss 'mine'" in str(caught.value)


def test_of_a_decorated_loss_the_line_is_its_own():
    """A decorator from another file may stand before it, as those of losses that a run brings do."""
    decorated = textwrap.dedent("""
        import functools
        def decorated(function):
            @functools.wraps(function)
            def called(*args, **given):
                return function(*args, **given)
            return called
        """)
    found = {}
    exec(compile(decorated, "elsewhere.py", "exec"), found)

    def broken(log_prob, **others):
        raise ValueError("no")

    with pytest.raises(HookError, match="raised ValueError: no") as caught:
        call(found["decorated"](broken))
    assert caught.value.hook_file == f"{__file__}:{broken.__code__.co_firstlineno + 1}"


@pytest.mark.skipif(not METRICS, reason="losses of this release return no metrics by name")
@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (None, r"not \(loss, metrics\): a tensor and a dict"),
        ({"a": "high"}, "the metric 'a', which is not a number but 'high'"),
        ({"a": torch.ones(())}, "the metric 'a', which is not a number but a tensor"),
    ],
)
def test_metrics_that_cannot_be_logged_are_named(metrics, message):
    with pytest.raises(HookError, match=message):
        call(lambda log_prob, **others: (log_prob.sum(), metrics))


def test_what_verls_own_losses_return_is_not_checked(monkeypatch):
    def of_verl(**others):
        return "anything"

    monkeypatch.setattr(of_verl, "__module__", hooks.VERLS[0])
    monkeypatch.setitem(registries.POLICY_LOSS_REGISTRY, "theirs", of_verl)
    with hooks.calling(hooks.LOSS, "theirs"):
        assert registries.POLICY_LOSS_REGISTRY["theirs"](log_prob=None) == "anything"
    assert registries.POLICY_LOSS_REGISTRY["theirs"] is of_verl


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (lambda token_level_rewards, **others: token_level_rewards, r"a Tensor, not \(advantages, returns\)"),
        (lambda token_level_rewards, **others: (1.0, 2.0), r"a tuple of 2 \(float, float\), not "),
        (lambda token_level_rewards, **others: None, "returned nothing"),
        (lambda token_level_rewards: None, "cannot be called"),
        (lambda token_level_rewards, **others: 1 / 0, "raised ZeroDivisionError"),
        (lambda token_level_rewards, **others: (token_level_rewards.add_(1),) * 2, "changes token_level_rewards"),
    ],
)
def test_an_estimator_that_cannot_be_used_is_named(estimator, message, monkeypatch):
    monkeypatch.setitem(registries.ADV_ESTIMATOR_REGISTRY, "mine", estimator)
    with pytest.raises(HookError, match=message) as caught, hooks.calling(hooks.ESTIMATOR, "mine"):
        registries.ADV_ESTIMATOR_REGISTRY["mine"](token_level_rewards=torch.ones(2, 3), response_mask=torch.ones(2, 3))
    assert caught.value.hook_file.startswith(f"{__file__}:") and "the advantage estimator 'mine'" in str(caught.value)


@pytest.mark.skipif(len(registries.POLICY_LOSS_REGISTRY) == 1, reason="this release of verl has no registry of losses")
def test_a_run_ends_at_its_first_step_and_says_why(train, monkeypatch, capsys):
    monkeypatch.setitem(
        registries.POLICY_LOSS_REGISTRY, "mine", lambda log_prob, **others: returned(log_prob.sum() * float("nan"), {})
    )
    train("actor_rollout_ref.actor.policy_loss.loss_mode=mine", "data.env.task=succ2", code=1)
    shown = capsys.readouterr().err
    assert "error: the policy loss 'mine' returned nan as loss" in shown and f"hook: {__file__}:" in shown
    assert "Traceback" not in shown
