# vextract:template shims/loss_of_batch.py - edit freely
"""The mean of a loss over the responses of a whole batch, of which a pass has a part."""

from typing import Any

import torch


def sizes_of_batch(config: Any, data: Any) -> dict[str, Any]:
    """Return what the mean over a batch is taken by, having noted it where the losses look.

    Args:
        config: the actor's.
        data: a pass, with what the engine notes in it.
    """
    noted: dict[str, Any] = config.global_batch_info
    noted.update({name: data[name] for name in ("dp_size", "batch_num_tokens", "global_batch_size")})
    noted["loss_scale_factor"] = config.loss_scale_factor
    return noted


def mean_over_batch(losses: torch.Tensor, config: Any) -> torch.Tensor:
    """Return a pass's part of the mean over the responses of the batch: what all passes add up to.

    Args:
        losses: of the responses of the pass, (bs,).
        config: the actor's; in `global_batch_info` the engine notes how many responses the batch has, and how many
            processes compute passes of it. Where it has noted nothing, the pass is the batch.
    """
    batch = config.get("global_batch_info") or {}
    size = batch.get("global_batch_size")
    if size is None:
        return torch.mean(losses)
    return losses.sum() / size * batch.get("dp_size", 1)
