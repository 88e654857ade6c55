# vextract:template base/__package__/workers/passes.py - edit freely
"""The passes of an update, divided among the processes: each learns from an equal part of every mini-batch.

A pass (a micro-batch) is what upstream computes a loss over at once. Its losses are divided by the sizes of the whole
mini-batch, so that the result does not depend on the number of processes.
"""

import zlib
from typing import Any

import numpy as np
import torch

from ..errors import ConfigError
from ..run.distributed import Ranks, seed_everything
from ..vendored.protocol import DataProto


class Passes:
    """Divides the passes of an update among the processes.

    Args:
        config: the section of the model, with its sizes counted in responses.
    """

    def __init__(self, config: Any) -> None:
        self.config = config
        self._seed = 0  # of the update, for what is drawn in its passes
        self._begun = 0  # passes of the update, by this process

    def share_between(self, ranks: Ranks) -> None:
        """Compute updates together with the other processes. The config's sizes are those of one process alone.

        Raises:
            ConfigError: they cannot share a mini-batch equally.
        """
        self.ranks = ranks
        self._mini_batch_size: int = self.config.ppo_mini_batch_size
        self._require_equal_parts(self._mini_batch_size)

    def part_of(self, batch: DataProto) -> DataProto:
        """Return the rows of a global batch that this process learns from.

        Args:
            batch: the same on every process.

        Raises:
            ConfigError: the processes cannot share the last mini-batch equally.
        """
        processes, mini = self.ranks.world_size, self._mini_batch_size
        self._seed, self._begun = int(torch.randint(2**31, ())), 0
        self.config.ppo_mini_batch_size = mini // processes
        if processes == 1:
            return batch
        self._require_equal_parts(len(batch) % mini)
        mini_batches = np.split(np.arange(len(batch)), range(mini, len(batch), mini))
        return batch[np.concatenate([np.split(rows, processes)[self.ranks.rank] for rows in mini_batches])]

    def begin_pass(self) -> None:
        """Have what is drawn in the next pass of an update depend on the pass: some losses and models draw."""
        number = self._begun * self.ranks.world_size + self.ranks.rank
        self._begun += 1
        seed_everything(zlib.crc32(f"{self._seed} {number}".encode()))

    def gather(self, value: Any) -> list[Any]:
        """Gather a value of each process's passes, in the order of the processes."""
        return self.ranks.gather_objects(value)

    def _require_equal_parts(self, rows: int) -> None:
        if rows % self.ranks.world_size:
            raise ConfigError(
                f"an update of {rows} responses cannot be shared equally by {self.ranks.world_size} processes",
                "change data.train_batch_size, ppo_mini_batch_size or rollout.n; or vextract add shared_passes",
            )
