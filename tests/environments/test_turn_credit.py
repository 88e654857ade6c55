"""Advantages over turns: which give the gradient of the expected return, found by every outcome of a small tree."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tests.environments.support import Project

# An episode: the actions of its turns, and their rewards. A state is how often `on` was chosen.
STOP, ON = 0, 1
EPISODES: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...] = (
    ((STOP,), (0.3,)),
    ((ON, STOP), (0.1, 1.0)),
    ((ON, ON, STOP), (0.1, -0.5, 2.0)),
    ((ON, ON, ON), (0.1, -0.5, 0.0)),
)
WIDTH = 6  # a token of the model and one of the environment for each turn
GROUP = 3  # episodes of a prompt
Estimator = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def log_probs_of(logits: torch.Tensor, actions: tuple[int, ...]) -> torch.Tensor:
    """Log-probabilities of an episode's actions; logits: (3 states, 2 actions)."""
    table = logits.log_softmax(-1)
    return torch.stack([table[state, action] for state, action in enumerate(actions)])


def expected_gradient(estimate: Estimator, logits: torch.Tensor) -> torch.Tensor:
    """The mean over all groups of episodes of the gradient that an estimator's advantages give."""
    import numpy as np

    total = torch.zeros_like(logits)
    index = np.array(["a"] * GROUP, dtype=object)
    for group in itertools.product(EPISODES, repeat=GROUP):
        rewards, mask = torch.zeros(2, GROUP, WIDTH, dtype=torch.float64)
        taken = torch.zeros(GROUP, WIDTH, dtype=torch.float64)
        for row, (actions, given) in enumerate(group):
            places = torch.arange(len(actions)) * 2
            rewards[row, places], mask[row, places] = torch.tensor(given, dtype=torch.float64), 1.0
            taken[row, places] = log_probs_of(logits, actions)
        with torch.no_grad():
            chance = taken.sum().exp()
            advantages, _ = estimate(token_level_rewards=rewards, response_mask=mask, index=index)
        (gradient,) = torch.autograd.grad((advantages.detach() * taken).sum() / GROUP, logits)
        total += chance * gradient
    return total


def true_gradient(logits: torch.Tensor) -> torch.Tensor:
    value = sum(log_probs_of(logits, actions).sum().exp() * sum(given) for actions, given in EPISODES)
    (gradient,) = torch.autograd.grad(value, logits)
    return gradient


def per_turn_normalised(token_level_rewards: Any, response_mask: Any, **others: Any) -> Any:
    """What suggests itself: each turn's reward-to-go, normalised over the group's episodes that have the turn."""
    returns = (token_level_rewards * response_mask).flip(-1).cumsum(-1).flip(-1)
    count = response_mask.sum(0).clamp(min=1)
    mean = (returns * response_mask).sum(0) / count
    deviation = ((((returns - mean) ** 2) * response_mask).sum(0) / count).sqrt()
    return (returns - mean) / (deviation + 1e-6) * response_mask, returns


def test_which_estimators_have_the_gradient_of_the_expected_return(episodic: Project) -> None:
    """Of others it has another direction; GRPO's without the deviation is shorter by a factor."""
    episodic.module("hooks").import_hooks()
    known = episodic.module("registries").ADV_ESTIMATOR_REGISTRY
    logits = torch.tensor([[0.4, -0.3], [0.2, 0.9], [-1.0, 0.5]], dtype=torch.float64, requires_grad=True)
    true, by_mean = true_gradient(logits), partial(known["grpo"], norm_adv_by_std_in_grpo=False)
    for estimate, factor in ((known["turn_rloo"], 1.0), (known["rloo"], 1.0), (by_mean, (GROUP - 1) / GROUP)):
        torch.testing.assert_close(expected_gradient(estimate, logits), true * factor, rtol=0, atol=1e-12)
    for estimate in (known["grpo"], per_turn_normalised):
        found = expected_gradient(estimate, logits).flatten()
        assert torch.nn.functional.cosine_similarity(found, true.flatten(), dim=0) < 1 - 1e-4, estimate
