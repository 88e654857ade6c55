# vextract:template - edit freely; upgrades merge your edits
"""Spread long and short responses evenly over the processes, as upstream's trainer does."""

import torch

from ..protocol import DataProto
from ..utils.seqlen_balancing import get_seqlen_balanced_partitions, log_seqlen_unbalance


def balance_batch(batch: DataProto, world_size: int) -> dict[str, float]:
    """Reorder the batch in place so that each process's share has a similar number of tokens.

    Args:
        batch: the global batch; `attention_mask` is (bs, prompt_length + response_length) int64.
        world_size: how many processes share it.

    Returns:
        Metrics named global_seqlen/*: how uneven the shares were, and are.
    """
    lengths = batch.batch["attention_mask"].sum(dim=-1).tolist()
    partitions = get_seqlen_balanced_partitions(lengths, k_partitions=world_size, equal_size=True)
    batch.reorder(torch.tensor([row for partition in partitions for row in partition]))
    metrics: dict[str, float] = log_seqlen_unbalance(lengths, partitions, prefix="global_seqlen")
    return metrics
