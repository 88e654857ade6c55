# vextract:template base/__package__/run/distributed.py - edit freely
"""The processes of a run: one, or as many as torchrun started.

Every process runs the same training loop. What upstream's driver does over the global batch, each process does over
the global batch too, so they all hold the same numbers; what upstream sends to its workers, each process does for its
share, and the shares are gathered again. With one process every function here is the identity.
"""

import contextlib
import datetime
import os
import pickle
import random
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, distribute_tensor

from ..errors import ConfigError
from ..vendored.protocol import DataProto, pad_dataproto_to_divisor, unpad_dataproto

T = TypeVar("T")

FOREVER = datetime.timedelta(days=365)
# How torch's backends report a peer that has ended or never joined. Some of these errors have no class of their own.
CONNECTION = re.compile(r"gloo|NCCL|Connection (closed|reset|refused)|Broken pipe|Timed out waiting", re.IGNORECASE)


class Ranks:
    """This process among its peers.

    Args:
        timeout_seconds: after which a collective operation fails that some process does not take part in.

    Attributes:
        rank: this process, counted from 0.
        world_size: how many there are.
        local_rank: this process among those on the same machine; the GPU it uses.
        peers: the other processes, met in the store that all share; None if there are none.
        group: what collective operations go through; None: torch's default group.
        patient: the group without a deadline: a disk or a reward of one process may take longer than `timeout_seconds`.

    Raises:
        ConfigError: there are more processes on this machine than GPUs.
    """

    _shared: "Ranks | None" = None  # of the trainers in this process
    _users = 1
    _formed = 0  # how many groups this process has been in: torchrun's store remembers what earlier ones said

    @classmethod
    def of_process(cls, config: Any) -> "Ranks":
        """Return this process among its peers: the same for all trainers in it, and there until all have closed it."""
        if cls._shared is not None:
            cls._shared._users += 1
            return cls._shared
        ranks = cls._shared = cls(config.actor_rollout_ref.nccl_timeout)
        return ranks

    def __init__(self, timeout_seconds: int = 600) -> None:
        self.rank = int(os.environ.get("RANK", 0))
        self.world_size = int(os.environ.get("WORLD_SIZE", 1))
        self.local_rank = int(os.environ.get("LOCAL_RANK", 0))
        self.peers: Peers | None = None
        self.group: dist.ProcessGroup | None = None
        self.patient: dist.ProcessGroup | None = None
        timeout = datetime.timedelta(seconds=timeout_seconds)
        backend = "gloo"
        if torch.cuda.is_available():
            if self.local_rank >= (count := torch.cuda.device_count()):
                raise ConfigError(
                    f"process {self.local_rank + 1} of this machine has no GPU of its own: torch finds {count}",
                    f"torchrun --nproc-per-node {count}; or local.device=cpu; or check CUDA_VISIBLE_DEVICES",
                )
            torch.cuda.set_device(self.local_rank)
            backend = "cpu:gloo,cuda:nccl"
        if self.world_size == 1:
            # The vendored code asks for its rank, so one process is a group as well: of one, without a port.
            store: dist.Store = dist.HashStore()
        else:
            store, _, _ = next(iter(dist.rendezvous("env://", timeout=timeout)))
            store = dist.PrefixStore(f"group_{Ranks._formed}", store)
            Ranks._formed += 1
            self.peers = Peers(dist.PrefixStore("peers", store.clone()), self.rank, self.world_size)
        group = dist.PrefixStore("group", store)
        shown_by = sys.excepthook
        dist.init_process_group(backend, store=group, rank=self.rank, world_size=self.world_size, timeout=timeout)
        if self.world_size == 1:
            sys.excepthook = shown_by  # torch's puts [rank0] before each line of an error
        else:
            self.patient = dist.new_group(backend="gloo", timeout=FOREVER)

    def close(self) -> None:
        """Leave the group, unless another trainer of this process is in it."""
        self._users -= 1
        if self._users > 0:
            return
        if Ranks._shared is self:
            Ranks._shared = None
        if dist.is_initialized():
            dist.destroy_process_group()

    def fail(self, code: int) -> NoReturn:
        """End this process, which the others may be waiting for, at once."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def barrier(self) -> None:
        """Wait until every process is here."""
        if self.world_size > 1:
            dist.barrier(group=self.group)

    def spread(self, function: Callable[[DataProto], DataProto], batch: DataProto) -> DataProto:
        """Return what `function` makes of a global batch, row by row: each process applies it to its share.

        Args:
            function: gives a row for each row; may use collective operations, and is called with equally many rows on
                every process.
            batch: the same on every process, of any size.
        """
        if self.world_size == 1:
            return function(batch)
        padded, padding = pad_dataproto_to_divisor(batch, self.world_size)
        share = padded[np.array_split(np.arange(len(padded)), self.world_size)[self.rank]]
        return unpad_dataproto(DataProto.concat(self.gather_objects(function(share))), padding)

    def gather_objects(self, value: T, *, patient: bool = False) -> list[T]:
        """Gather each process's value, in the order of the ranks, on every process; `patient` waits without end."""
        if self.world_size == 1:
            return [value]
        gathered: list[Any] = [None] * self.world_size
        dist.all_gather_object(gathered, value, group=self.patient if patient else self.group)
        return gathered

    def on_driver(self, function: Callable[[], T]) -> T:
        """Run `function` on rank 0 only and give every process its result, or raise its exception everywhere.

        The others wait for as long as it takes. The function uses no collective operation.
        """
        if self.world_size == 1:
            return function()
        outcome, failure = _outcome(function) if self.rank == 0 else (b"", None)
        sent: list[Any] = [outcome]
        dist.broadcast_object_list(sent, src=0, group=self.patient)
        if failure is not None:
            raise failure
        return _result(sent[0], 0)

    def together(self, function: Callable[[], T]) -> T:
        """Run `function`, which uses no collective operation, on every process; if it fails on one, fail on all.

        Each waits for the others for as long as these take.
        """
        if self.world_size == 1:
            return function()
        result: list[T] = []
        outcome, failure = _outcome(lambda: result.append(function()))
        for rank, other in enumerate(self.gather_objects(outcome, patient=True)):
            if rank == self.rank and failure is not None:
                raise failure
            _result(other, rank)
        return result[0]

    def any(self, flag: bool) -> bool:
        """Tell whether the flag is set on at least one process."""
        told = torch.tensor(bool(flag), dtype=torch.uint8)
        if self.world_size > 1:
            dist.all_reduce(told, dist.ReduceOp.MAX, group=self.group)
        return bool(told)


class Peers:
    """The other processes. torchrun ends all of its machine when one of them has failed or was killed."""

    def __init__(self, store: dist.Store, rank: int, world_size: int) -> None:
        self.store, self.rank, self.world_size = store, rank, world_size

    def explain(self, error: BaseException) -> str | None:
        """Return why a collective operation failed; None if the process that made it fail tells it itself."""
        time.sleep(2.0)  # for the others to say so
        if not self.is_first_to_fail():
            return None
        reason = str(error).strip().splitlines()[0][:300]
        return f"the processes cannot work together any more, since one has ended or hangs: {reason}"

    def is_first_to_fail(self) -> bool:
        """Tell whether no other process has reported a failure yet: then this one must."""
        try:
            return int(self.store.add("failures", 1)) == 1
        except RuntimeError:  # no store any more
            return int(os.environ.get("LOCAL_RANK", 0)) == 0


def is_connection_error(error: BaseException | None) -> bool:
    """Tell whether an exception only says that another process is gone, or has not come."""
    while error is not None:
        if isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and CONNECTION.search(str(error))):
            return True
        error = error.__cause__
    return False


@contextlib.contextmanager
def same_random_numbers(seed: str) -> Iterator[None]:
    """Have the global generators give the numbers that belong to `seed` within it: the same on every process."""
    before = random_state()
    seed_everything(zlib.crc32(seed.encode()))
    try:
        yield
    finally:
        set_random_state(before)


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's global generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:  # that would note for each device that may come where it was called from, which takes a millisecond
        torch.default_generator.manual_seed(seed)


def random_state() -> dict[str, Any]:
    """Return the state of the global random generators, to be given back to `set_random_state`."""
    state = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Put the global random generators back to where they were."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        for device, one in zip(range(torch.cuda.device_count()), state["cuda"], strict=False):
            torch.cuda.set_rng_state(one, device)


def to_full(value: Any, device: str | None = "cpu") -> Any:
    """Return a tensor in one piece, whether or not the processes share it; anything else as it is.

    Args:
        value: a tensor, or something else.
        device: where it is to be; None: where it is computed with.
    """
    if isinstance(value, DTensor):
        value = value.full_tensor()
    return value.detach().to(device) if isinstance(value, torch.Tensor) else value


def to_local(value: torch.Tensor) -> torch.Tensor:
    """Return this process's share of a tensor: all of it, if the processes do not share it."""
    return value.to_local() if isinstance(value, DTensor) else value


def distribute_like(value: torch.Tensor, shared: Any) -> torch.Tensor:
    """Return a whole tensor as another one is: shared out between the processes, or not. Only rank 0's values count."""
    if isinstance(shared, DTensor) and value.dim() > 0:
        return distribute_tensor(value.to(shared.device), shared.device_mesh, shared.placements)
    return value.clone()


def _outcome(function: Callable[[], Any]) -> tuple[bytes, Exception | None]:
    """Return the result of a function or its exception, pickled; and the exception itself."""
    try:
        return pickle.dumps((function(), None)), None
    except Exception as error:
        try:
            outcome = pickle.dumps((None, error))
            pickle.loads(outcome)
        except Exception:  # of a class that cannot be pickled
            outcome = pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
        return outcome, error


def _result(outcome: bytes, rank: int) -> Any:
    value, error = pickle.loads(outcome)
    if error is not None:
        error.raised_by = rank
        raise error
    return value
