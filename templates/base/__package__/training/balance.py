# vextract:template - edit freely; upgrades merge your edits
"""Spread long and short responses evenly over the processes, as upstream's trainer does."""

import torch

from ..protocol import DataProto
from ..utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions, log_seqlen_unbalance


def balance_batch(batch: DataProto, world_size: int) -> dict[str, float]:
    """Reorder the batch in place so that each process's share has a similar workload.

    Args:
        batch: the global batch; `attention_mask` is (bs, prompt_length + response_length) int64.
        world_size: how many processes share it.

    Returns:
        Metrics named global_seqlen/*: how uneven the shares were, and are.
    """
    lengths = batch.batch["attention_mask"].sum(dim=-1)  # (bs,)
    workload = calculate_workload(lengths)
    partitions = get_seqlen_balanced_partitions(workload, k_partitions=world_size, equal_size=True)
    for number, partition in enumerate(partitions):
        partition.sort(key=lambda row: (workload[row], row))
        # Short ones at both ends: fewer bubbles when micro-batches are pipelined.
        partitions[number] = partition[::2] + partition[1::2][::-1]
    batch.reorder(torch.tensor([row for partition in partitions for row in partition]))
    metrics: dict[str, float] = log_seqlen_unbalance(workload, partitions, prefix="global_seqlen")
    return metrics
