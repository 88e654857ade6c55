"""The advantage: how far a response is above the median of its group."""

from typing import Any

import numpy as np
import torch

try:
    from ..vendored.algorithms.core_algos import register_adv_est
except ImportError:
    from verl.trainer.ppo.core_algos import register_adv_est


@register_adv_est("above_median")
def compute_advantage_above_median(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray, config: Any = None, **kwargs: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reward less the median of the group: one lucky response leaves the others where they were.

    Args:
        token_level_rewards, response_mask: (bs, response_length)
        index: (bs,), the prompt that each response belongs to

    Returns:
        advantages and returns, both (bs, response_length).
    """
    scores = token_level_rewards.sum(dim=-1)
    advantages = torch.zeros_like(scores)
    for group in np.unique(index):
        rows = torch.from_numpy(np.flatnonzero(index == group))
        advantages[rows] = scores[rows] - scores[rows].median()
    advantages = advantages[:, None] * response_mask
    return advantages, advantages
