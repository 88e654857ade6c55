# vextract:template - edit freely; upgrades merge your edits
"""The processes of a run: one, or as many as torchrun started.

Every process runs the same training loop. What upstream's driver does over the global batch, each process does over
the global batch too, so they all hold the same numbers; what upstream sends to its workers, each process does for its
share, and the shares are gathered again. With one process every function here is the identity.
"""

import contextlib
import datetime
import os
import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from ..protocol import DataProto

T = TypeVar("T")


class Ranks:
    """This process among its peers.

    Attributes:
        rank: this process, counted from 0.
        world_size: how many there are.
        local_rank: this process among those on the same machine; the GPU it uses.
    """

    def __init__(self, timeout_seconds: int = 600) -> None:
        self.rank = int(os.environ.get("RANK", 0))
        self.world_size = int(os.environ.get("WORLD_SIZE", 1))
        self.local_rank = int(os.environ.get("LOCAL_RANK", 0))
        timeout = datetime.timedelta(seconds=timeout_seconds)
        backend = "gloo"
        if torch.cuda.is_available():
            torch.cuda.set_device(self.local_rank)
            backend = "cpu:gloo,cuda:nccl"
        if self.world_size == 1:
            # The vendored code asks for its rank, so one process is a group as well: of one, without a port.
            store = dist.HashStore()
            dist.init_process_group(backend, store=store, rank=0, world_size=1, timeout=timeout)
        else:
            dist.init_process_group(backend, timeout=timeout)

    def close(self) -> None:
        """Leave the group."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def barrier(self) -> None:
        """Wait until every process is here."""
        if self.world_size > 1:
            dist.barrier()

    def share(self, batch: DataProto, mini_batch_size: int | None = None) -> DataProto:
        """This process's rows of a global batch.

        Args:
            batch: the same on every process; its size is a multiple of the number of processes.
            mini_batch_size: rows of the global batch that make one optimizer step. Each process then gets its part of
                each mini-batch, so that the steps hold the same rows however many processes there are.
        """
        if self.world_size == 1:
            return batch
        rows = np.arange(len(batch))
        if mini_batch_size is not None and len(batch) % mini_batch_size == 0:
            rows = rows.reshape(-1, self.world_size, mini_batch_size // self.world_size)[:, self.rank].reshape(-1)
        else:
            rows = np.array_split(rows, self.world_size)[self.rank]
        return batch[rows]

    def gather(self, part: DataProto) -> DataProto:
        """The global batch from each process's part, in the order of the ranks."""
        if self.world_size == 1:
            return part
        return DataProto.concat(self.gather_objects(part))

    def gather_objects(self, value: T) -> list[T]:
        """Each process's value, in the order of the ranks, on every process."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def on_driver(self, function: Callable[[], T]) -> T:
        """Run `function` on rank 0 only and give every process its result, or raise its exception everywhere."""
        if self.world_size == 1:
            return function()
        outcome: list[Any] = [None, None]
        if self.rank == 0:
            try:
                outcome[0] = function()
            except Exception as error:
                outcome[1] = error.with_traceback(None)
        dist.broadcast_object_list(outcome, src=0)
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on at least one process."""
        if self.world_size == 1:
            return flag
        value = torch.tensor(int(flag))
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return bool(value)

    @contextlib.contextmanager
    def same_random_numbers(self, seed: int) -> Iterator[None]:
        """Within it, all processes draw the same random numbers from the global generators."""
        if self.world_size == 1:
            yield
            return
        before = random_state()
        seed_everything(seed)
        try:
            yield
        finally:
            set_random_state(before)


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's global generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state() -> dict[str, Any]:
    """The state of the global random generators, to be given back to `set_random_state`."""
    state = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Put the global random generators back to where they were."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
