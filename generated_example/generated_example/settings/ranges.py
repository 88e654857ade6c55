# vextract:template base/__package__/settings/ranges.py - edit freely
"""Which numbers a setting may have. A wrong one would fail far from its cause, or train nothing without a word."""

import math
from collections.abc import Callable
from typing import Any

AT_LEAST_1 = (
    "actor_rollout_ref.actor.ppo_epochs",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
    "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.rollout.response_length",
    "actor_rollout_ref.rollout.tensor_model_parallel_size",
    "actor_rollout_ref.rollout.val_kwargs.n",
    "critic.forward_micro_batch_size_per_gpu",
    "critic.ppo_epochs",
    "critic.ppo_micro_batch_size_per_gpu",
    "critic.ppo_mini_batch_size",
    "data.gen_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    "data.train_batch_size",
    "data.val_batch_size",
    "distillation.distillation_loss.topk",
    "local.early_stopping.patience",
    "local.gradient_accumulation_steps",
    "local.num_threads",
    "local.prime.oversample_factor",
    "local.prime.ppo_micro_batch_size_per_gpu",
    "local.prime.ppo_mini_batch_size",
    "local.reward.concurrency",
    "local.rollout.mismatch.every",
    "local.rollout.mismatch.responses",
    "local.rollout_micro_batch_size",
    "local.teacher_server.concurrency",
    "trainer.total_epochs",
    "trainer.total_training_steps",
)
NOT_NEGATIVE = (
    "actor_rollout_ref.actor.clip_ratio",
    "actor_rollout_ref.actor.clip_ratio_high",
    "actor_rollout_ref.actor.clip_ratio_low",
    "actor_rollout_ref.actor.optim.lr",
    "actor_rollout_ref.rollout.val_kwargs.temperature",
    "critic.cliprange_value",
    "critic.optim.lr",
    "data.dataloader_num_workers",
    "distillation.distillation_loss.clip_ratio",
    "distillation.distillation_loss.clip_ratio_high",
    "distillation.distillation_loss.clip_ratio_low",
    "distillation.distillation_loss.distillation_loss_coef",
    "local.early_stopping.min_delta",
    "local.log_train_generations",
    "local.peer_timeout",
    "local.prime.optim.lr",
    "local.reward.alarm.window",
    "local.reward.debug_samples",
    "local.reward.num_workers",
    "trainer.critic_warmup",
    "trainer.log_val_generations",
)
POSITIVE = (
    "actor_rollout_ref.actor.grad_clip",  # 0 would scale every gradient to nothing
    "actor_rollout_ref.nccl_timeout",
    "actor_rollout_ref.rollout.repetition_penalty",
    "actor_rollout_ref.rollout.temperature",
    "actor_rollout_ref.rollout.val_kwargs.repetition_penalty",
    "critic.grad_clip",
    "distillation.distillation_loss.loss_max_clamp",
    "local.max_logits_mb",
    "local.prime.beta_train",
    "local.prime.grad_clip",
    "local.reward.alarm.length_ratio",
    "local.reward.timeout",
    "local.rollout.mismatch.threshold",
    "local.teacher_server.request_timeout",
)
NOT_BELOW_MINUS_1 = (  # -1: all tokens
    "actor_rollout_ref.rollout.top_k",
    "actor_rollout_ref.rollout.val_kwargs.top_k",
)
MINUS_1_OR_MORE_THAN_0 = (  # -1: all rows
    "data.train_max_samples",
    "data.val_max_samples",
)
FROM_0_TO_1 = (
    "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio",
    "actor_rollout_ref.rollout.min_p",
    "actor_rollout_ref.rollout.val_kwargs.min_p",
    "algorithm.gamma",
    "algorithm.lam",
    "critic.optim.lr_warmup_steps_ratio",
)
SEEDS = (
    "data.seed",
    "local.seed",
)
SHARES = (
    "actor_rollout_ref.rollout.top_p",
    "actor_rollout_ref.rollout.val_kwargs.top_p",
)
RULES: tuple[tuple[tuple[str, ...], Callable[[float], bool], str], ...] = (
    (AT_LEAST_1, lambda value: value >= 1, "must be at least 1"),
    (NOT_NEGATIVE, lambda value: value >= 0, "must not be negative"),
    (POSITIVE, lambda value: value > 0, "must be more than 0"),
    (NOT_BELOW_MINUS_1, lambda value: value >= -1, "must be at least -1, for all tokens"),
    (MINUS_1_OR_MORE_THAN_0, lambda value: value == -1 or value >= 1, "must be at least 1, or -1 for all rows"),
    (FROM_0_TO_1, lambda value: 0 <= value <= 1, "must be from 0 to 1"),
    (SEEDS, lambda value: 0 <= value < 2**63, "must be from 0 to 2^63 - 1"),
    (SHARES, lambda value: 0 < value <= 1, "must be more than 0 and at most 1"),
)
HINTS = {
    "actor_rollout_ref.actor.grad_clip": "gradients are scaled down to this norm; 1e9 leaves them as they are",
    "critic.grad_clip": "gradients are scaled down to this norm; 1e9 leaves them as they are",
    "actor_rollout_ref.rollout.temperature": "for the likeliest tokens: actor_rollout_ref.rollout.do_sample=false",
}


def out_of_range(name: str, value: Any) -> tuple[str, str] | None:
    """Return what is wrong with the number that a setting has, and what is to be known of it; None if nothing is.

    Args:
        name: the setting's dotted name.
        value: what it is; anything but a number is in range.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    hint = HINTS.get(name, "")
    if math.isnan(value):
        return f"{name} is {value}, not a number", hint
    for names, holds, words in RULES:
        if name in names and not holds(value):
            return f"{name} is {value}, and {words}", hint
    return None
