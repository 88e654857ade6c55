# vextract:template - edit freely
"""Several processes compute the passes of an update together, so that it does not depend on how many they are.

A pass (a micro-batch) is the unit that upstream computes a loss over: the mean over its tokens, say. Averaging the
losses of the processes' own shares is not the loss of the whole where their shares have different numbers of tokens. So
each process forwards its share of the rows of a pass, all of them exchange the results, one number per token, and each
computes the loss of the whole pass by the vendored code, and from it the gradient of its own rows.
"""

import zlib
from collections import deque
from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ..run.distributed import seed_everything
from ..switches import DYNAMIC_BSZ
from ..vendored.protocol import DataProto
from .passes import Passes
from .token_passes import partition_tokens


class SharedPasses(Passes):
    """Divides the passes of an update among the processes, several of which may compute one together.

    Attributes:
        sharers: how many processes compute each pass together; 1 if there are enough passes for all processes.
        group: if passes are shared, a process group with one member for each pass.

    Args:
        config: the section of the model, with its sizes counted in responses.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.sharers = 1
        self.group: Any = None
        self._groups: dict[int, Any] = {}
        self._most_rows = 0  # that one process forwards in a pass
        if DYNAMIC_BSZ:
            self.formed: deque[list[list[int]]] = deque()  # of passes by tokens that are still to come: partitions
        self._numbers: list[int] = []  # of this process's passes, in an epoch of the update

    def part_of(self, batch: DataProto) -> DataProto:
        """Return the rows of a global batch whose passes this process takes part in.

        Args:
            batch: the same on every process, of any size.
        """
        world_size, mini = self.ranks.world_size, self._mini_batch_size
        self._seed, self._begun, self._numbers = int(torch.randint(2**31, ())), 0, []
        starts = range(0, len(batch), mini)
        sizes = [min(mini, len(batch) - start) for start in starts]
        rows_of_pass = self.config.ppo_micro_batch_size_per_gpu
        if DYNAMIC_BSZ and self.config.use_dynamic_bsz:
            rows_of_pass = mini
        # Processes take whole passes, in equal numbers, as far as these go; further processes share a pass.
        blocks = gcd(world_size, *(-(-size // rows_of_pass) for size in sizes))
        if any(size % rows_of_pass for size in sizes):
            blocks = 1
        self.sharers = world_size // blocks
        self.config.ppo_mini_batch_size = mini // blocks
        self._most_rows = -(-rows_of_pass // self.sharers)
        if DYNAMIC_BSZ and self.config.use_dynamic_bsz:
            self._most_rows = 0  # decided for each pass
        if self.sharers > 1:
            if self.sharers not in self._groups:
                world = range(self.ranks.world_size)
                made = [dist.new_group(list(world[place :: self.sharers])) for place in range(self.sharers)]
                self._groups[self.sharers] = made[self.ranks.rank % self.sharers]
            self.group = self._groups[self.sharers]
        block = self.ranks.rank // self.sharers
        rows, before = [], 0
        for start, size in zip(starts, sizes, strict=True):
            own = -(-size // rows_of_pass) // blocks
            rows.append(np.arange(start, start + size)[block * own * rows_of_pass : (block + 1) * own * rows_of_pass])
            if blocks > 1:
                self._numbers += range(before + block * own, before + (block + 1) * own)
                before += blocks * own
        chosen = np.concatenate(rows)
        return batch if len(chosen) == len(batch) else batch[chosen]

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

    def gather(self, value: Any) -> list[Any]:
        """Gather a value of each pass, from the first of the processes that share it."""
        return self.ranks.gather_objects(value)[:: self.sharers]

    def partition(self, lengths: torch.Tensor) -> list[list[int]]:
        """Return which rows of the next pass, of these `lengths`, (bs,), each of its sharers forwards."""
        if DYNAMIC_BSZ and self.formed:
            return self.formed.popleft()
        if DYNAMIC_BSZ and not self._most_rows:
            return partition_tokens(lengths, self.sharers)
        order, ranks = lengths.argsort(descending=True, stable=True).tolist(), self.sharers
        turns = [(rank, 2 * ranks - 1 - rank) for rank in range(ranks)]  # to and fro, so that each gets as much
        return [[row for place, row in enumerate(order) if place % (2 * ranks) in turn] for turn in turns]

    def own(self, partition: list[list[int]]) -> list[int]:
        """Return the rows that this process forwards: never none, since all must take part in fetching the weights."""
        return partition[self.ranks.rank % self.sharers] or [0]

    def gather_rows(self, part: torch.Tensor, partition: list[list[int]]) -> torch.Tensor:
        """Gather the values at the rows that each process forwarded: those at all rows of the pass."""
        most = self._most_rows
        if DYNAMIC_BSZ:
            most = most or max(len(rows) for rows in partition)
        place = self.ranks.rank % self.sharers
        outputs: torch.Tensor = _GatheredRows.apply(part, partition, most, self.ranks.rank - place, place)
        return outputs

    def _require_equal_parts(self, rows: int) -> None:
        """Take any number of rows."""


class _GatheredRows(torch.autograd.Function):
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
