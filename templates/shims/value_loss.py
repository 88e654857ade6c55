# vextract:template - edit freely
"""The value loss of one pass, as its part of the loss of the whole batch."""

from __future__ import annotations

from typing import Any

import torch

from ..vendored.algorithms.core_algos import agg_loss, compute_value_loss


def value_loss_of_batch(
    *,
    batch: Any,
    vpreds: torch.Tensor,
    values: torch.Tensor,
    returns: torch.Tensor,
    response_mask: torch.Tensor,
    cliprange_value: float,
    loss_agg_mode: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the clipped squared error, divided by the tokens or responses of the batch and not by those of the pass.

    Args:
        batch: has `dp_size`, `batch_num_tokens` and `global_batch_size`, which the engine counts.
        vpreds, values, returns, response_mask: (bs, response_length) of the pass.

    Returns:
        The loss, which the passes of a batch add up, and the share of tokens of the pass whose error is clipped.
    """
    _, clipped_share = compute_value_loss(
        vpreds=vpreds,
        values=values,
        returns=returns,
        response_mask=response_mask,
        cliprange_value=cliprange_value,
        loss_agg_mode=loss_agg_mode,
    )
    near = torch.max(torch.min(vpreds, values + cliprange_value), values - cliprange_value)
    errors = torch.max((vpreds - returns) ** 2, (near - returns) ** 2)
    sizes = {name: batch[name] for name in ("dp_size", "batch_num_tokens", "global_batch_size")}
    return 0.5 * agg_loss(errors, response_mask, loss_agg_mode, **sizes), clipped_share
