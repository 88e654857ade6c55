# vextract:template - edit freely
"""Spread long and short responses evenly over the processes, as upstream's trainer does."""

from typing import Any

import torch

from ..vendored.protocol import DataProto
from ..vendored.utils import seqlen_balancing
from ..vendored.utils.seqlen_balancing import get_seqlen_balanced_partitions, log_seqlen_unbalance

# Older releases of verl count tokens, newer ones estimate the work that they make.
_calculate_workload: Any = getattr(seqlen_balancing, "calculate_workload", None)


def balance_batch(batch: DataProto, world_size: int) -> dict[str, float]:
    """Reorder the batch in place so that each process's share makes a similar amount of work.

    Rows that cannot be dealt out evenly come last.

    Args:
        batch: the global batch; `attention_mask` is (bs, prompt_length + response_length) int64.
        world_size: how many processes share it.

    Returns:
        Metrics named global_seqlen/*: how uneven the shares were, and are.
    """
    lengths = batch.batch["attention_mask"].sum(dim=-1)  # (bs,)
    even = len(lengths) - len(lengths) % world_size
    if even == 0:
        return {}
    left_over = list(range(even, len(lengths)))
    lengths = lengths[:even]
    workload = lengths.tolist() if _calculate_workload is None else _calculate_workload(lengths)
    partitions = get_seqlen_balanced_partitions(workload, k_partitions=world_size, equal_size=True)
    if _calculate_workload is not None:
        for number, partition in enumerate(partitions):
            partition.sort(key=lambda row: (workload[row], row))
            # Short ones at both ends: fewer bubbles when micro-batches are pipelined.
            partitions[number] = partition[::2] + partition[1::2][::-1]
    batch.reorder(torch.tensor([row for partition in partitions for row in partition] + left_over))
    metrics = log_seqlen_unbalance(workload, partitions, prefix="global_seqlen")
    return {name: float(value) for name, value in metrics.items()}
