# vextract:hook  yours: written once, never touched by an upgrade
"""Algorithms of your own, registered under a name that a config can select.

A worked example: `algorithm.adv_estimator=group_rank`. A policy loss is registered by `@register_policy_loss("name")`
for `actor_rollout_ref.actor.policy_loss.loss_mode=name`; vextract's tutorial has one ("Your own estimator and loss").
"""

from typing import Any

import numpy as np
import torch

try:
    from ..vendored.algorithms.core_algos import register_adv_est
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.trainer.ppo.core_algos import register_adv_est


@register_adv_est("group_rank")
def compute_group_rank_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray, **others: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute a response's rank among those to the same prompt, from -1 (worst) to 1 (best).

    Args:
        token_level_rewards, response_mask: (bs, response_length), the mask is 1 on the tokens of the response
        index: (bs,), the prompt (uid) that each response belongs to
        others: such as `config`, the `algorithm` section

    Returns:
        advantages and returns, (bs, response_length): the same tensor, zero outside the mask.
    """
    scores = token_level_rewards.sum(dim=-1)  # (bs,)
    same = torch.from_numpy(index[:, None] == index[None, :]).to(scores.device)  # (bs, bs)
    beaten = (torch.sign(scores[:, None] - scores[None, :]) * same).sum(dim=-1)
    advantages = (beaten / (same.sum(dim=-1) - 1).clamp(min=1))[:, None] * response_mask
    return advantages, advantages
