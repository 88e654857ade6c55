# vextract:template - edit freely
"""Passes of an update that are formed by tokens: as many as each process can take."""

import functools
import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import torch


@contextmanager
def forming(
    shared: Any,
    module: ModuleType,
    lengths_of: Callable[[Any], torch.Tensor],
    rows_of: Callable[[Any, list[int]], Any],
) -> Iterator[None]:
    """Have the passes of an update that several processes share be formed by what each of them can take.

    Upstream forms passes that are as long as all processes together can take. Rows cannot be divided, so that one
    process would get more than it can take, and others would wait for it. Up to verl 0.7.1 the loss depends on
    which rows are in a pass, so that there they stay upstream's.

    Args:
        shared: how the passes are shared, a `SharedPasses`.
        module: the vendored one that calls `rearrange_micro_batches`.
        lengths_of: returns how many tokens each row of a batch has, (bs,) int64.
        rows_of: returns some rows of a batch.
    """
    if shared.sharers == 1 or not shared.config.use_dynamic_bsz:
        yield
        return

    def rearrange(batch: Any, max_token_len: int, **_: Any) -> tuple[list[Any], list[list[int]]]:
        passes = passes_by_tokens(lengths_of(batch), max_token_len // shared.sharers, shared.sharers)
        for shares in passes:
            ends = np.cumsum([len(share) for share in shares]).tolist()
            shared.formed.append([list(range(end - len(rows), end)) for rows, end in zip(shares, ends, strict=True)])
        order = [[row for share in shares for row in share] for shares in passes]
        return [rows_of(batch, rows) for rows in order], order

    theirs = vars(module)["rearrange_micro_batches"]
    shared.formed.clear()
    vars(module)["rearrange_micro_batches"] = rearrange
    try:
        yield
    finally:
        vars(module)["rearrange_micro_batches"] = theirs


def within(batches: Callable[..., Iterator[Any]], around: Callable[[Any], Any]) -> Callable[..., Iterator[Any]]:
    """Return a generator method whose batches come, and are used, within what `around` returns for the object."""

    @functools.wraps(batches)
    def made(self: Any, *arguments: Any, **named: Any) -> Iterator[Any]:
        with around(self):
            yield from batches(self, *arguments, **named)

    return made


def partition_tokens(lengths: torch.Tensor, ranks: int) -> list[list[int]]:
    """Partition rows, long ones first and each to whom has the fewest tokens, however many rows that makes.

    (Graham, Bounds on multiprocessing timing anomalies, 1969: the longest share is at most a third over the least
    possible.)

    Args:
        lengths: of the rows, (bs,).
        ranks: how many get some.

    Returns:
        The rows of each rank.
    """
    partition: list[list[int]] = [[] for _ in range(ranks)]
    shares = [(0, rank) for rank in range(ranks)]
    tokens = lengths.tolist()
    for row in lengths.argsort(descending=True, stable=True).tolist():
        share, rank = shares[0]
        partition[rank].append(row)
        heapq.heapreplace(shares, (share + tokens[row], rank))
    return partition


def passes_by_tokens(lengths: torch.Tensor, budget: int, ranks: int) -> list[list[list[int]]]:
    """Form passes of which each rank takes a share within the budget, as few as can be found, with shares alike.

    All shares of all passes are made at once, and those of a pass are the nearest in length: ranks wait least for each
    other.

    Args:
        lengths: of the rows, in tokens, (bs,).
        budget: tokens of a share; a row that is longer is a share by itself.
        ranks: how many share each pass.

    Returns:
        The passes; of each the shares, one for each rank; of each share the rows. Shares may be empty.
    """
    budget = max(budget, int(lengths.max()))
    count = -(-int(lengths.sum()) // (budget * ranks))
    while True:
        shares = partition_tokens(lengths, count * ranks)
        tokens = [int(lengths[share].sum()) for share in shares]
        if max(tokens) <= budget:
            break
        count += 1
    order = sorted(range(len(shares)), key=lambda share: -tokens[share])
    passes = [[shares[place] for place in order[first : first + ranks]] for first in range(0, len(order), ranks)]
    return [shares for shares in passes if shares[0]]
