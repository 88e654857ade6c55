"""Losses and estimators of the owner's that a release calls otherwise."""

from __future__ import annotations

from extractor.usecases.upgrade.own_losses import check_own_losses
from tests.lifecycle.releases import Choice, generated

OLD, MIDDLE, NEW = (Choice(release) for release in ("0.5.0", "0.6.1", "0.9.1"))
OWN = """
def agree(x, mask, config):
    return agg_loss(x, mask, **config.global_batch_info), {}


def one_pass(x, mask):
    zero = x.sum() * 0
    return masked_mean(x, mask), zero, zero, zero


@register_policy_loss("tanh")
def four_values(old_log_prob, log_prob, advantages, response_mask, loss_agg_mode="token-mean", config=None):
    return one_pass(torch.tanh(torch.exp(log_prob - old_log_prob) - 1), response_mask)


@core_algos.register_policy_loss("batch")
def of_the_batch(log_prob, response_mask, config, **others):
    result = agree(log_prob, response_mask, config)
    return result


@register_policy_loss("both")
def either(log_prob, config, **others):
    of_batch = getattr(config, "global_batch_info", {})
    if NEW:
        return agg_loss(log_prob, **of_batch), {}
    return agg_loss(log_prob), 0, 0, 0


@register_policy_loss("theirs")
def leaves_it_to_theirs(**arguments):
    return get_policy_loss_fn("vanilla")(**arguments)


@register_adv_est("mine")
def estimator(token_level_rewards, response_mask, **others):
    return token_level_rewards, token_level_rewards
"""


def told(old: Choice, new: Choice, text: str = OWN, emitted: str = "") -> dict[str, list[str]]:
    sides = ({file.path: file.data for file in generated(choice).tree} for choice in (old, new))
    found = check_own_losses(*sides, [("toy/custom/algorithms.py", text, emitted)], f"verl {new.verl}")
    return {item.name: item.problem.split("; ") for item in found}


def test_what_a_release_calls_otherwise_is_named(verl: None) -> None:
    found = told(OLD, NEW)
    assert found.keys() == {"four_values"}
    values, arguments, mean = found["four_values"]
    assert values == "it returns 4 values, and verl 0.9.1 takes 2: return (loss, metrics), a tensor and a dict"
    assert arguments == "verl 0.9.1 passes rollout_is_weights as well: take it, or **others"
    assert mean.startswith("it is the mean of a pass")
    assert [len(problems) for problems in told(OLD, MIDDLE).values()] == [2], "passes are not added up there"
    assert told(MIDDLE, MIDDLE) == {}


def test_down_again_it_names_what_is_not_there_yet(verl: None) -> None:
    assert told(NEW, MIDDLE)["of_the_batch"] == ["verl 0.6.1 has no config.global_batch_info: agg_loss(...) without it"]


def test_emitted_examples_and_verls_own_are_not_the_owners(verl: None) -> None:
    assert told(OLD, NEW, emitted=OWN) == {}
    for choice in (OLD, NEW):
        for file in generated(choice).tree:
            if file.path.endswith("custom/algorithms.py"):
                assert told(OLD, NEW, file.data.decode()) == {}
