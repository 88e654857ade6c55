# vextract:hook  yours: written once, never touched by an upgrade
"""How to test algorithms of your own. Change these with the hook."""

import numpy as np
import torch

from generated_example import custom  # noqa: F401  (registers the hooks)
from generated_example.vendored.algorithms.core_algos import get_adv_estimator_fn


def test_group_rank_ranks_within_each_group():
    rewards = torch.tensor([[0.0, 0.1], [0.0, 100.0], [0.0, 0.5], [0.0, 7.0], [0.0, 7.0]])
    mask = torch.tensor([[1, 1], [1, 1], [1, 0], [1, 1], [1, 1]])
    groups = np.array(["a", "a", "a", "b", "b"])
    advantages, _ = get_adv_estimator_fn("group_rank")(token_level_rewards=rewards, response_mask=mask, index=groups)
    assert advantages.tolist() == [[-1, -1], [1, 1], [0, 0], [0, 0], [0, 0]]
