# vextract:template - edit freely
"""What other processes hand to rank 0 while all of them go on with their work."""

import pickle
import threading
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

# How often rank 0 looks for what has come.
PERIOD = 0.02


class Relay:
    """Carries values through the run's store: no process waits for another.

    Args:
        store: that all processes share, for the relay alone; None: there is one process.
        rank: this process.
        world_size: how many there are.
    """

    def __init__(self, store: dist.Store | None, rank: int, world_size: int) -> None:
        self._store = store
        self._rank = rank
        self._others = range(1, world_size)
        self._round = 0
        self._sent = 0
        self._taken: dict[int, int] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, take: Callable[[Any], None]) -> None:
        """Begin a round; every process must. On rank 0 a thread hands what others send to `take`, in their order."""
        self._round += 1
        self._sent, self._taken = 0, dict.fromkeys(self._others, 0)
        if self._rank == 0 and self._others:
            self._over.clear()
            self._thread = threading.Thread(target=self._keep_taking, args=(take,), name="relay", daemon=True)
            self._thread.start()

    def send(self, value: Any) -> None:
        """Hand a value to rank 0, from another process."""
        assert self._store is not None
        self._store.set(self._key(self._rank, self._sent), pickle.dumps(value))
        self._sent += 1

    def end(self) -> None:
        """End the round, once every process has sent what it will: rank 0 takes what is left of it."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    def _keep_taking(self, take: Callable[[Any], None]) -> None:
        going_on = True
        while going_on:
            going_on = not self._over.wait(PERIOD)
            for rank in self._others:
                self._take_from(rank, take)

    def _take_from(self, rank: int, take: Callable[[Any], None]) -> None:
        assert self._store is not None
        while self._store.check([key := self._key(rank, self._taken[rank])]):
            take(pickle.loads(self._store.get(key)))
            self._store.delete_key(key)
            self._taken[rank] += 1

    def _key(self, rank: int, number: int) -> str:
        return f"{self._round}/{rank}/{number}"
