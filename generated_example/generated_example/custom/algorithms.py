# vextract:hook  yours: written once, never touched by an upgrade
"""Algorithms of your own, registered under a name that a config can select.

Two worked examples: `algorithm.adv_estimator=group_rank` and `actor_rollout_ref.actor.policy_loss.loss_mode=spo`.
"""

from inspect import signature
from typing import Any

import numpy as np
import torch

try:
    from ..vendored.algorithms.core_algos import agg_loss, get_policy_loss_fn, register_adv_est, register_policy_loss
    from ..vendored.utils.torch_functional import masked_mean
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn, register_adv_est, register_policy_loss
    from verl.utils.torch_functional import masked_mean

# Since verl 0.6.1 a policy loss returns the loss and a dictionary of metrics; before, the loss and three numbers.
RETURNS_METRICS = "dict" in str(signature(get_policy_loss_fn("clip_cov")).return_annotation)


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


@register_policy_loss("spo")
def compute_policy_loss_spo(
    old_log_prob: torch.Tensor,
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    response_mask: torch.Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: torch.Tensor | None = None,
) -> tuple[Any, ...]:
    """Compute the loss of Simple Policy Optimization (https://arxiv.org/abs/2401.16025): a quadratic penalty, no clip.

    All tensors are (bs, response_length). `config` is the `actor_rollout_ref.actor` section; from verl 0.8.0 on its
    `global_batch_info` says of how many tokens and responses the mean is: those of all passes.

    Returns:
        The loss, a scalar, and metrics: the share of tokens outside the range, and the KL from the old policy.
    """
    log_ratio = torch.clamp(log_prob - old_log_prob, min=-20.0, max=20.0)
    ratio = torch.exp(log_ratio)
    losses = advantages.abs() * (ratio - 1.0) ** 2 / (2.0 * config.clip_ratio) - ratio * advantages
    if rollout_is_weights is not None:  # importance weights against the rollout policy, if it corrects
        losses = losses * rollout_is_weights
    of_batch = getattr(config, "global_batch_info", None) or {}
    loss = agg_loss(loss_mat=losses, loss_mask=response_mask, loss_agg_mode=loss_agg_mode, **of_batch)
    outside = masked_mean(((ratio - 1.0).abs() > config.clip_ratio).float(), response_mask)
    kl = masked_mean(-log_ratio, response_mask)
    if RETURNS_METRICS:
        return loss, {"actor/ppo_kl": kl.detach().item(), "actor/pg_clipfrac": outside.detach().item()}
    return loss, outside, kl, torch.tensor(0.0)
