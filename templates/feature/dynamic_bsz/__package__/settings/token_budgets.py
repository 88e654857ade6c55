# vextract:template - edit freely
"""Passes that are formed by tokens, and have no room for the longest sequence."""

from collections.abc import Iterator
from typing import Any

from omegaconf import OmegaConf

from ..switches import CRITIC, PRIME


def token_budgets(config: Any) -> Iterator[tuple[str, str, int]]:
    """Find budgets of tokens that are smaller than a sequence may be: what is wrong, and the setting that mends it."""
    section = config.actor_rollout_ref
    budgets = {
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": section.actor.use_dynamic_bsz,
        "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu": section.rollout.log_prob_use_dynamic_bsz,
        "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu": section.ref.log_prob_use_dynamic_bsz,
    }
    if CRITIC:
        for name in ("ppo", "forward"):
            budgets[f"critic.{name}_max_token_len_per_gpu"] = config.critic.use_dynamic_bsz
    if PRIME and config.local.prime.enable:
        budgets["local.prime.ppo_max_token_len_per_gpu"] = config.local.prime.use_dynamic_bsz
    longest = config.data.max_prompt_length + config.data.max_response_length
    for key, used in budgets.items():
        if used and (given := OmegaConf.select(config, key)) < longest:
            yield f"{key} is {given}, and a sequence may have {longest} tokens", key, longest
