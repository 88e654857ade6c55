"""Cases of the losses of on-policy distillation, with gradients."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import torch

from . import inputs
from .cases import Call, Cases, family, outcome
from .cases_losses import losses_config
from .cases_models import SIZE, tokens
from .cases_padding import PADDING, TENSORS, meet_attention
from .sides import Side

LOSSES = "verl.trainer.distillation.losses"
VOCABULARY, TOPK = 30, 5
# What the engine notes of the batch that a pass is a part of.
NOTED = {"dp_size": 2, "batch_num_tokens": 61, "global_batch_size": 17}


@family("distillation.losses", LOSSES)
def distillation_losses(call: Call) -> Cases:
    """Yield cases of every distillation loss, with rewards, clamped and chunked."""
    names = sorted(call.side.module(LOSSES).DISTILLATION_LOSS_REGISTRY)
    for name, use_policy_gradient, use_task_rewards in product(names, (True, False), (True, False)):
        kind = f"{'advantage' if use_policy_gradient else 'loss'}{'/rewards' if use_task_rewards else ''}"
        changes = {"use_policy_gradient": use_policy_gradient, "use_task_rewards": use_task_rewards}
        yield f"{name}/{kind}", lambda: _learn(call.side, name, changes)
    clamped = {"use_policy_gradient": False, "loss_max_clamp": 0.3, "log_prob_min_clamp": -2.0}
    for name in ("k3", "forward_kl_topk"):
        yield f"{name}/clamped", lambda: _learn(call.side, name, clamped)
    # By pieces of the logits; releases that do not know them learn it at once.
    alone = {"use_policy_gradient": False, "use_task_rewards": False}
    chunks = {"use_chunked_topk": True, "chunked_topk_chunk_size": 7}
    yield "forward_kl_topk/chunked", lambda: _learn(call.side, "forward_kl_topk", alone, **chunks)


def _learn(side: Side, name: str, changes: dict[str, Any], **attributes: Any) -> Any:
    """Return loss, metrics and gradient, or the exception raised."""
    losses = side.module(LOSSES)
    settings: Any = outcome(
        side.get("verl.workers.config.distillation:DistillationLossConfig"), loss_mode=name, topk=TOPK, **changes
    )
    if isinstance(settings, Exception):
        return settings
    for key, value in attributes.items():
        object.__setattr__(settings, key, value)
    # "fsdp", and the sizes that are noted before: what named fixes give the project's side.
    config, distillation = losses_config(side, strategy="fsdp"), SimpleNamespace(distillation_loss=settings)
    config.global_batch_info.update({**NOTED, "loss_scale_factor": config.loss_scale_factor})
    batch = _make_batch(side, by_topk=settings.loss_settings.use_topk)
    ids, offsets = batch["input_ids"].values(), batch["input_ids"].offsets()
    logits = inputs.normal(len(ids), VOCABULARY, seed=801).requires_grad_()
    following = logits.log_softmax(-1).gather(-1, ids.roll(-1).unsqueeze(-1)).squeeze(-1)
    output = {"log_probs": torch.nested.nested_tensor_from_jagged(following, offsets)}
    if settings.loss_settings.use_topk:
        found = losses.distillation_ppo_loss(config, distillation, None, batch, student_logits=logits.unsqueeze(0))
        output |= {key: torch.nested.nested_tensor_from_jagged(value[0], offsets) for key, value in found.items()}
    loss, metrics = losses.distillation_ppo_loss(config, distillation, output, batch)
    loss.backward()
    return loss, {key: getattr(value, "values", value) for key, value in metrics.items()}, logits.grad


def _make_batch(side: Side, *, by_topk: bool) -> Any:
    """Return the shared batch without padding, with teacher log-probabilities."""
    meet_attention(side)
    data = tokens(side)
    ids = data.batch["input_ids"]
    said = inputs.normal(SIZE, ids.shape[1], VOCABULARY, seed=802).log_softmax(-1)
    if by_topk:
        data.batch["teacher_logprobs"], data.batch["teacher_ids"] = said.topk(TOPK, dim=-1)
    else:
        data.batch["teacher_ids"] = ids.roll(-1, 1).unsqueeze(-1)
        data.batch["teacher_logprobs"] = said.gather(-1, data.batch["teacher_ids"])
    batch = side.get(f"{PADDING}:left_right_2_no_padding")(data.to_tensordict())
    side.get(f"{TENSORS}:assign_non_tensor")(batch, **NOTED)
    return batch
