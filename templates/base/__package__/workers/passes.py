# vextract:template - edit freely
"""Several processes compute the passes of an update together, so that it does not depend on how many they are.

A pass (a micro-batch) is the unit that upstream computes a loss over: the mean over its tokens, say. Averaging the
losses of the processes' own shares is not the loss of the whole where their shares have different numbers of tokens. So
each process computes whole passes, as many as the others. With the feature shared_passes several can share one: each
forwards some of its rows, all exchange the results, one number per token, and each computes the loss of the whole pass
by the vendored code, and from it the gradient of its own rows.
"""

import zlib
from collections import deque
from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ..errors import ConfigError
from ..run.distributed import Ranks, seed_everything
from ..switches import DYNAMIC_BSZ, SHARED_PASSES
from ..vendored.protocol import DataProto
from .token_passes import partition_tokens
from .whole_passes import WholePass


def require_whole_passes(sizes: Sequence[int], rows_of_pass: int, world_size: int, name: str) -> None:
    """Check that each process can compute as many whole passes of an update as the others.

    Args:
        sizes: of the mini-batches, in responses.
        rows_of_pass: responses of a pass.
        world_size: how many processes there are.
        name: of the model's section, for the message.

    Raises:
        ConfigError: the passes of a mini-batch cannot be divided so.
    """
    wrong = [size for size in sizes if size % (rows_of_pass * world_size)]
    if not wrong:
        return
    own, left = divmod(gcd(*sizes), world_size)
    fitting = [] if left else [rows for rows in range(min(rows_of_pass, own), 0, -1) if own % rows == 0]
    either = f"set {name}.ppo_micro_batch_size_per_gpu={fitting[0]}; or " if fitting else ""
    raise ConfigError(
        f"{wrong[0]} responses per optimizer step, in passes of {rows_of_pass}, cannot be divided among {world_size} "
        "processes",
        f"{either}vextract add shared_passes",
    )


class SharedPasses:
    """Says what each process does of an update. One process does all.

    Attributes:
        sharers: how many processes share each pass; 1: each computes whole ones.

    Args:
        config: the section of the model, with its sizes counted in responses.
    """

    sharers = 1
    if SHARED_PASSES:
        uneven = False  # whether the last pass of a mini-batch may have fewer rows than the others

    def __init__(self, config: Any) -> None:
        self.config = config
        if SHARED_PASSES:
            self.group: Any = None  # where they share, the processes of which each computes other passes
            self._groups: dict[int, Any] = {}
            self._most_rows = 0  # that one process forwards in a pass
        if DYNAMIC_BSZ:
            self.formed: deque[list[list[int]]] = deque()  # of passes by tokens that are still to come: partitions
        self._seed = 0  # of the update, for what is drawn in its passes
        self._begun = 0  # passes of the update, by this process
        self._numbers: list[int] = []  # of this process's passes, in an epoch of the update

    def share_between(self, ranks: Ranks) -> None:
        """Compute updates together with the other processes.

        The config's sizes are those of one process alone.
        """
        self.ranks = ranks
        self._mini_batch_size: int = self.config.ppo_mini_batch_size

    def part_of(self, batch: DataProto) -> DataProto:
        """Return the rows of a global batch whose passes this process takes part in.

        Args:
            batch: the same on every process, of any size.

        Raises:
            ConfigError: its passes cannot be divided among the processes.
        """
        world_size, mini = self.ranks.world_size, self._mini_batch_size
        self._seed, self._begun, self._numbers = int(torch.randint(2**31, ())), 0, []
        if world_size == 1:
            return batch
        starts = range(0, len(batch), mini)
        sizes = [min(mini, len(batch) - start) for start in starts]
        rows_of_pass = self.config.ppo_micro_batch_size_per_gpu
        if DYNAMIC_BSZ and self.config.use_dynamic_bsz:
            rows_of_pass = mini
        if SHARED_PASSES:
            # Processes take whole passes, in equal numbers, as far as these go; further processes share a pass.
            blocks = gcd(world_size, *(-(-size // rows_of_pass) for size in sizes))
            if not self.uneven and any(size % rows_of_pass for size in sizes):
                blocks = 1
            self.sharers = world_size // blocks
            self._most_rows = -(-rows_of_pass // self.sharers)
            if DYNAMIC_BSZ and self.config.use_dynamic_bsz:
                self._most_rows = 0  # decided for each pass
            if self.sharers > 1 and not self.uneven:
                self._make_group()
        else:
            require_whole_passes(sizes, rows_of_pass, world_size, "actor_rollout_ref.actor")
            blocks = world_size
        self.config.ppo_mini_batch_size = mini // blocks
        block = self.ranks.rank // self.sharers
        rows, before = [], 0
        for start, size in zip(starts, sizes, strict=True):
            own = -(-size // rows_of_pass) // blocks
            rows.append(np.arange(start, start + size)[block * own * rows_of_pass : (block + 1) * own * rows_of_pass])
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

    if SHARED_PASSES:

        def _make_group(self) -> None:
            """Find the processes of which each computes other passes than this one."""
            if self.sharers not in self._groups:
                world = range(self.ranks.world_size)
                made = [dist.new_group(list(world[place :: self.sharers])) for place in range(self.sharers)]
                self._groups[self.sharers] = made[self.ranks.rank % self.sharers]
            self.group = self._groups[self.sharers]

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
            """Return the rows that this process forwards: never none, since all must take part in fetching weights."""
            return partition[self.ranks.rank % self.sharers] or [0]

        def whole(self, part: torch.Tensor, partition: list[list[int]]) -> torch.Tensor:
            """Gather the values at the rows that each process forwarded: those at all rows of the pass."""
            most = self._most_rows
            if DYNAMIC_BSZ:
                most = most or max(len(rows) for rows in partition)
            place = self.ranks.rank % self.sharers
            outputs: torch.Tensor = WholePass.apply(part, partition, most, self.ranks.rank - place, place)
            return outputs
