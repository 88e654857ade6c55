# vextract:template - edit freely
"""The values at all rows of a pass, of which each process has forwarded some."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist


class WholePass(torch.autograd.Function):
    """Gather the values at the rows that each process forwarded: those at all rows of the pass."""

    @staticmethod
    def forward(
        ctx: Any, part: torch.Tensor, partition: Sequence[list[int]], most: int, first: int, place: int
    ) -> torch.Tensor:
        ctx.rows, ctx.sharers, ctx.shape = partition[place], len(partition), part.shape
        # Every process gets the values of all, those of other passes too: they are few.
        padded = part.new_zeros((most, *part.shape[1:]))
        padded[: len(ctx.rows)] = part[: len(ctx.rows)]
        parts = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, padded)
        whole = part.new_empty((sum(len(rows) for rows in partition), *part.shape[1:]))
        for rank, rows in enumerate(partition, first):
            whole[rows] = parts[rank][: len(rows)]
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        # FSDP takes the mean over the processes, while the gradient of a pass is the sum over those that share it.
        part = gradients[0].new_zeros(ctx.shape)
        part[: len(ctx.rows)] = gradients[0][ctx.rows] * ctx.sharers
        return part, None, None, None, None
