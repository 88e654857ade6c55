# vextract:template base/__package__/workers/passes.py - edit freely
"""Several processes compute the passes of an update together, so that it does not depend on how many they are.

A pass (a micro-batch) is the unit that upstream computes a loss over: the mean over its tokens, say. Averaging the
losses of the processes' own shares is not the loss of the whole where their shares have different numbers of tokens. So
each process forwards its share of the rows of a pass, all of them exchange the results, one number per token, and each
computes the loss of the whole pass by the vendored code, and from it the gradient of its own rows.
"""

import heapq
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import gcd
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ..run.distributed import Ranks, seed_everything
from ..vendored.protocol import DataProto


class SharedPasses:
    """Says what each process does of an update; `shared_forward` has how it does its part. One process does all.

    Attributes:
        sharers: how many processes share each pass. With enough passes it is 1: whole passes are shared out.

    Args:
        config: the section of the model, with its sizes counted in responses.
        uneven: whether the last pass of a mini-batch may have fewer rows than the others.
    """

    def __init__(self, config: Any, *, uneven: bool) -> None:
        self.sharers = 1
        self._config = config
        self._uneven = uneven
        self._most_rows = 0  # that one process forwards in a pass; 0: decided for each pass
        self._formed: deque[list[list[int]]] = deque()  # of passes by tokens that are still to come: their partitions
        self._seed = 0  # of the update, for what is drawn in its passes
        self._begun = 0  # passes of the update, by this process
        self._numbers: list[int] = []  # of this process's passes, in an epoch of the update

    def share_between(self, ranks: Ranks) -> None:
        """Compute updates together with the other processes.

        The config's sizes are those of one process alone; but a pass that is formed by tokens is as long as all
        processes together can take (`ppo_max_token_len_per_gpu` times their number).
        """
        self.ranks = ranks
        self._mini_batch_size: int = self._config.ppo_mini_batch_size

    def part_of(self, batch: DataProto) -> DataProto:
        """Return the rows of a global batch whose passes this process takes part in.

        Args:
            batch: the same on every process, of any size.
        """
        world_size, mini = self.ranks.world_size, self._mini_batch_size
        self._seed, self._begun, self._numbers = int(torch.randint(2**31, ())), 0, []
        if world_size == 1:
            return batch
        starts = range(0, len(batch), mini)
        sizes = [min(mini, len(batch) - start) for start in starts]
        rows_of_pass = mini if self._config.use_dynamic_bsz else self._config.ppo_micro_batch_size_per_gpu
        # Processes take whole passes, in equal numbers, as far as these go; further processes share a pass.
        blocks = gcd(world_size, *(-(-size // rows_of_pass) for size in sizes))
        if not self._uneven and any(size % rows_of_pass for size in sizes):
            blocks = 1
        self.sharers = world_size // blocks
        self._config.ppo_mini_batch_size = mini // blocks
        self._most_rows = 0 if self._config.use_dynamic_bsz else -(-rows_of_pass // self.sharers)
        block = self.ranks.rank // self.sharers
        rows, before = [], 0
        for start, size in zip(starts, sizes, strict=True):
            own = -(-size // rows_of_pass) // blocks
            rows.append(np.arange(start, start + size)[block * own * rows_of_pass : (block + 1) * own * rows_of_pass])
            if blocks > 1:
                self._numbers += range(before + block * own, before + (block + 1) * own)
                before += blocks * own
        return batch[np.concatenate(rows)]

    def begin_pass(self) -> None:
        """Have what is drawn in the next pass of an update depend on the pass, and not on who computes it.

        A loss may draw tokens of a pass (`clip_cov`), a model may drop some.
        """
        number, epoch = self._begun, len(self._numbers)
        if epoch:  # others compute the passes between this process's
            of_all = epoch * (self.ranks.world_size // self.sharers)
            number = self._begun // epoch * of_all + self._numbers[self._begun % epoch]
        self._begun += 1
        seed_everything(zlib.crc32(f"{self._seed} {number}".encode()))

    @contextmanager
    def forming(
        self, module: ModuleType, lengths_of: Callable[[Any], torch.Tensor], rows_of: Callable[[Any, list[int]], Any]
    ) -> Iterator[None]:
        """Have the passes of an update that several processes share be formed by what each of them can take.

        Upstream forms passes that are as long as all processes together can take. Rows cannot be divided, so that one
        process would get more than it can take, and others would wait for it. Up to verl 0.7.1 the loss depends on
        which rows are in a pass, so that there they stay upstream's.

        Args:
            module: the vendored one that calls `rearrange_micro_batches`.
            lengths_of: returns how many tokens each row of a batch has, (bs,) int64.
            rows_of: returns some rows of a batch.
        """
        if self.sharers == 1 or not self._config.use_dynamic_bsz:
            yield
            return

        def rearrange(batch: Any, max_token_len: int, **_: Any) -> tuple[list[Any], list[list[int]]]:
            passes = passes_by_tokens(lengths_of(batch), max_token_len // self.sharers, self.sharers)
            for shares in passes:
                ends = np.cumsum([len(share) for share in shares]).tolist()
                self._formed.append([list(range(end - len(rows), end)) for rows, end in zip(shares, ends, strict=True)])
            order = [[row for share in shares for row in share] for shares in passes]
            return [rows_of(batch, rows) for rows in order], order

        theirs = vars(module)["rearrange_micro_batches"]
        self._formed.clear()
        vars(module)["rearrange_micro_batches"] = rearrange
        try:
            yield
        finally:
            vars(module)["rearrange_micro_batches"] = theirs

    def partition(self, lengths: torch.Tensor) -> list[list[int]]:
        """Return which rows of the next pass, of these `lengths`, (bs,), each of its sharers forwards."""
        if self._formed:
            return self._formed.popleft()
        return (partition_rows if self._most_rows else partition_tokens)(lengths, self.sharers)

    def own(self, partition: list[list[int]]) -> list[int]:
        """Return the rows that this process forwards: never none, since all must take part in fetching the weights."""
        return partition[self.ranks.rank % self.sharers] or [0]

    def whole(self, part: torch.Tensor, partition: list[list[int]]) -> torch.Tensor:
        """Gather the values at the rows that each process forwarded: those at all rows of the pass."""
        most = self._most_rows or max(len(rows) for rows in partition)
        place = self.ranks.rank % self.sharers
        outputs: torch.Tensor = _Whole.apply(part, partition, most, self.ranks.rank - place, place)
        return outputs

    def rows_of_all(self, rows: torch.Tensor) -> torch.Tensor:
        """Put something for each row of this process's passes together to the same for all rows of the batch."""
        if self.ranks.world_size == 1:
            return rows
        return torch.cat(self.ranks.gather_objects(rows.cpu())[:: self.sharers])


def partition_rows(lengths: torch.Tensor, ranks: int) -> list[list[int]]:
    """Partition rows, long ones first and to and fro, so that each rank gets a similar number of rows and of tokens.

    Args:
        lengths: of the rows, (bs,).
        ranks: how many get some.

    Returns:
        The rows of each rank.
    """
    order = lengths.argsort(descending=True, stable=True).tolist()
    turn = 2 * ranks
    return [
        [row for position, row in enumerate(order) if position % turn in (rank, turn - 1 - rank)]
        for rank in range(ranks)
    ]


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


class _Whole(torch.autograd.Function):
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
