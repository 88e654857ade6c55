# vextract:hook  yours: written once, never touched by an upgrade
"""Algorithms of your own, registered under a name that a config can select.

A worked example: `algorithm.adv_estimator=group_rank`. This release of verl has no registry of policy losses; the one
that it uses is `compute_policy_loss` in vendored/algorithms/core_algos.py, which you may edit.
"""

from typing import Any

import numpy as np
import torch

try:
    from ..training.registries import register_adv_est
except ImportError:  # under full verl, whose later releases have the registry
    from verl.trainer.ppo.core_algos import register_adv_est


@register_adv_est("group_rank")
def compute_group_rank_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray, config: Any = None, **kwargs: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute a response's advantage: its rank among the responses to the same prompt, from -1 (worst) to 1 (best).

    Like GRPO it needs no critic; unlike GRPO it does not care about the scale of the reward, so a single extreme
    reward cannot dominate its group. Ties share a rank; a group of equals, or of one, has advantage 0.

    Args:
        token_level_rewards: (bs, response_length)
        response_mask: (bs, response_length), 1 on the tokens of the response
        index: (bs,), the prompt (uid) that each response belongs to
        config: the `algorithm` section of the config

    Returns:
        advantages and returns, both (bs, response_length): the same tensor, zero outside the mask.
    """
    with torch.no_grad():
        scores = token_level_rewards.sum(dim=-1)  # (bs,)
        groups = torch.from_numpy(np.unique(index, return_inverse=True)[1].reshape(-1)).to(scores.device)
        same = groups[:, None] == groups[None, :]  # (bs, bs)
        beaten = (same & (scores[:, None] > scores[None, :])).sum(dim=-1)
        beaten_by = (same & (scores[:, None] < scores[None, :])).sum(dim=-1)
        others = (same.sum(dim=-1) - 1).clamp(min=1)
        advantages = ((beaten - beaten_by) / others).to(scores.dtype)[:, None] * response_mask
    return advantages, advantages
