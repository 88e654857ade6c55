# vextract:template - edit freely
"""Optimizer steps of the vendored actor, by a loss of whole responses."""

from collections.abc import Callable
from typing import Any

import torch

from ..shims.device import here
from ..switches import DYNAMIC_BSZ, LOGITS_IN_PIECES
from ..vendored.protocol import DataProto
from .actor import Actor
from .token_passes import partition_tokens

OF_ROWS = ("outcomes", "rivals", "row_weights", "rows")


def update_by(
    losses: Callable[[torch.Tensor, Any], torch.Tensor], actor: Actor, data: DataProto
) -> dict[str, list[float]]:
    """Train on a batch, by the mean of its responses' losses.

    Args:
        losses: is given log-probabilities, (rows, response_length), and the columns of these rows; returns (rows,).
        actor: the vendored actor.
        data: the rows whose passes this process takes part in, on the device; `meta_info` has the temperature.

    Returns:
        reward_model/dpo_loss and reward_model/grad_norm, a number for each optimizer step.
    """
    vendored, passes = actor._actor, actor.passes
    blocks = passes.ranks.world_size // passes.sharers
    metrics: dict[str, list[float]] = {"reward_model/dpo_loss": [], "reward_model/grad_norm": []}
    if LOGITS_IN_PIECES:
        with actor.pieces.in_use():  # see what its logits are
            pass
    vendored.actor_module.train()
    size = actor.config.ppo_mini_batch_size
    for mini_batch in (data[start : start + size] for start in range(0, len(data), size)):
        vendored.actor_optimizer.zero_grad()
        total, mean = 0.0, blocks / len(actor.rows_of_all(torch.ones(len(mini_batch))))
        for rows in _passes(mini_batch, actor.config):
            part = mini_batch[rows]
            columns = {name: value.to(here()) for name, value in part.batch.items()}
            outputs = actor._forward_micro_batch({**columns, **part.non_tensor_batch}, data.meta_info["temperature"])
            log_probs = outputs["log_probs"] if isinstance(outputs, dict) else outputs[1]
            loss = losses(log_probs, columns).sum() * mean
            loss.backward()
            total += loss.item()
        metrics["reward_model/grad_norm"].append(float(vendored._optimizer_step()))
        metrics["reward_model/dpo_loss"].append(total)
    vendored.actor_optimizer.zero_grad()
    return metrics


def _passes(batch: DataProto, config: Any) -> list[list[int]]:
    """Return the rows of each pass: so many of them, or as many as have so many tokens."""
    size = config.ppo_micro_batch_size_per_gpu
    if DYNAMIC_BSZ and config.use_dynamic_bsz:
        return _passes_by_tokens(batch, config)
    return [list(range(start, min(start + size, len(batch)))) for start in range(0, len(batch), size)]


if DYNAMIC_BSZ:

    def _passes_by_tokens(batch: DataProto, config: Any) -> list[list[int]]:
        lengths = batch.batch["attention_mask"].sum(dim=-1).cpu()
        longest = max(config.ppo_max_token_len_per_gpu, int(lengths.max()))
        count = -(-int(lengths.sum()) // longest)
        while True:
            passes = partition_tokens(lengths, count)
            if max(int(lengths[rows].sum()) for rows in passes) <= longest:
                return [rows for rows in passes if rows]
            count += 1
