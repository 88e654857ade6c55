# vextract:template - edit freely
"""Notices when another process of the run has died or hangs, so that none waits for it for ever.

torchrun ends the processes of its own machine when one of them fails. It does not see one that hangs, nor do the other
machines hear of it. So each process leaves a sign of life in the run's store every second, and says where it is. One
that cannot, since a function holds Python's interpreter lock, lives as long as it computes: those on its machine see
that.
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
import torch.distributed as dist

from ..errors import RESUMABLE
from ..tracking import phases
from ..tracking.terminal import live_views

PERIOD = 1.0
GRACE = 5.0  # seconds in which a process may end by itself before the watch ends it
WORK = 0.2  # seconds of processor time between two looks at a silent process that computes


class Watch(threading.Thread):
    """Tells the other processes that this one lives, and ends it when one of them does not: `Peers` with signs of life.

    Args:
        store: that all processes share; for the watch alone, since a store serves one thread at a time.
        rank: this process.
        world_size: how many there are.
        patience: seconds of silence after which a process counts as lost; 0: for ever.
    """

    def __init__(self, store: dist.Store, rank: int, world_size: int, patience: float) -> None:
        super().__init__(name="watch", daemon=True)
        self.store, self.rank, self.world_size = store, rank, world_size
        self.patience = patience
        self._host = socket.gethostname()
        self._beats = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._phase = (_current_phase(), time.monotonic())
        now = time.monotonic()
        self._answered = now  # when the store last did
        self._peers: list[dict[str, Any]] = [{} for _ in range(world_size)]
        self._changed = [now] * world_size
        self._worked: dict[int, float] = {}  # processor time of the silent ones of this machine
        self._signs_of_life = threading.Thread(target=self._keep_exchanging, name="signs of life", daemon=True)
        self._tell()

    def start(self) -> None:
        """Start the threads that give signs of life and look for those of the others."""
        now = time.monotonic()
        self._answered, self._changed = now, [now] * self.world_size
        super().start()
        self._signs_of_life.start()

    def run(self) -> None:
        """End this process when another has been silent for too long."""
        looked = time.monotonic()
        while not self._over.wait(PERIOD):
            now = time.monotonic()
            if now - looked > 3 * PERIOD:  # this one was held up itself, and has heard nobody
                self._answered, self._changed = now, [now] * self.world_size
            looked = now
            if failed := [rank for rank, peer in enumerate(self._peers) if peer.get("state") == "failed"]:
                elsewhere = self._peers[failed[0]]["host"] != self._host  # its message is in the log there
                if time.monotonic() - self._changed[failed[0]] > GRACE:
                    self._end(f"{self._who(failed[0])} failed; its message is there" if elsewhere else None)
            elif self.patience and (text := self.loss(self.patience)):
                self._end(text)

    def loss(self, seconds: float) -> str | None:
        """Return which processes have not been heard of for so long; None if all have."""
        now = time.monotonic()
        if now - self._answered > seconds:
            return f"rank 0's machine, where all processes meet, has not answered for {seconds:.0f} s"
        silent = [
            rank
            for rank in range(self.world_size)
            if now - self._changed[rank] > seconds and self._peers[rank].get("state") != "left"
        ]
        if not silent:
            return None
        return "; ".join(self._fate(rank, seconds) for rank in silent)

    def explain(self, error: BaseException) -> str | None:
        """Return why a collective operation failed; None if the process that made it fail tells it itself."""
        for _ in range(20):  # a process that was killed falls silent
            time.sleep(0.5)
            try:
                if self.add("failures", 0):
                    return None
            except RuntimeError:
                pass
            ended = [rank for rank in range(self.world_size) if self._has_ended(rank)]
            if text := "; ".join(self._fate(rank, 0.0) for rank in ended) or self.loss(5.0):
                return text
        reason = str(error).strip().splitlines()[0][:300]
        return f"the processes cannot work together any more: {reason}\nwhere they are: {self._where()}"

    def is_first_to_fail(self) -> bool:
        """Tell whether no other process has reported a failure yet: then this one must."""
        try:
            return self.add("failures", 1) == 1
        except RuntimeError:  # no store any more
            return int(os.environ.get("LOCAL_RANK", 0)) == 0

    def all_arrive(self, place: str, seconds: float) -> bool:
        """Tell whether every process calls this with the same place within the time."""
        deadline = time.monotonic() + seconds
        try:
            arrived = self.add(f"arrived/{place}", 1)
            while arrived < self.world_size and time.monotonic() < deadline:
                time.sleep(0.02)
                arrived = self.add(f"arrived/{place}", 0)
            return arrived >= self.world_size
        except RuntimeError:
            return False

    def add(self, key: str, amount: int) -> int:
        """Add to a number in the store; returns what it is then.

        Raises:
            RuntimeError: it does not answer.
        """
        with self._access():
            return int(self.store.add(key, amount))

    def leave(self, state: str = "left") -> None:
        """Say that this process ends: "left" in good order, so that nobody waits, or "failed", so that all end.

        In good order, no thread of the watch is in the store any more: Python aborts where one is when it ends.
        """
        self._over.set()
        try:
            self._tell(state)
        except RuntimeError:
            pass
        if state == "left" and self._signs_of_life.is_alive():
            self._signs_of_life.join(GRACE)

    def _keep_exchanging(self) -> None:
        while not self._over.wait(PERIOD):
            try:
                self._tell()
                with self._access():
                    told = self.store.multi_get([str(rank) for rank in range(self.world_size)])
            except RuntimeError:
                continue
            now = time.monotonic()
            self._answered = now
            for rank, data in enumerate(told):
                peer = json.loads(data)
                for other, worked in peer.get("works", {}).items():  # though it says nothing itself
                    if worked > self._peers[rank].get("works", {}).get(other, worked):
                        self._changed[int(other)] = now
                if peer != self._peers[rank]:
                    self._peers[rank], self._changed[rank] = peer, now

    def _look_at_the_silent(self) -> dict[int, float]:
        """Return the processor time of those on this machine that compute, and have been silent for some time."""
        now = time.monotonic()
        silent = [
            (rank, peer["process"])
            for rank, peer in enumerate(self._peers)
            if rank != self.rank and peer.get("host") == self._host and now - self._changed[rank] > 2 * PERIOD
        ]
        for rank, process in silent:
            try:
                times = psutil.Process(process).cpu_times()
            except psutil.Error:
                continue
            if times.user + times.system > self._worked.setdefault(rank, times.user + times.system) + WORK:
                self._worked[rank] = times.user + times.system
        return {rank: self._worked[rank] for rank, _ in silent if rank in self._worked}

    def _tell(self, state: str = "running") -> None:
        phase, now = _current_phase(), time.monotonic()
        if phase != self._phase[0]:
            self._phase = (phase, now)
        self._beats += 1
        sign = {
            "beat": self._beats,
            "phase": phase,
            "seconds": round(now - self._phase[1], 1),
            "process": os.getpid(),
            "host": self._host,
            "state": state,
            "works": self._look_at_the_silent(),
        }
        with self._access():
            self.store.set(str(self.rank), json.dumps(sign))

    @contextlib.contextmanager
    def _access(self) -> Iterator[None]:
        """Lend the store to one thread at a time; it may not answer, and nobody is to wait for that."""
        if not self._lock.acquire(timeout=5.0):
            raise RuntimeError("the store does not answer")
        try:
            yield
        finally:
            self._lock.release()

    def _has_ended(self, rank: int) -> bool:
        """Tell whether a process of this machine is there no more, and has not said that it leaves."""
        peer = self._peers[rank]
        if peer.get("host") != self._host or peer.get("state") == "left":
            return False
        try:
            return bool(psutil.Process(peer["process"]).status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    def _fate(self, rank: int, seconds: float) -> str:
        peer = self._peers[rank]
        if self._has_ended(rank):
            return f"{self._who(rank)} was killed in phase {peer.get('phase')}"
        fate = f"{self._who(rank)} has given no sign of life for {seconds:.0f} s; it was in phase {peer.get('phase')}"
        return f"{fate}, and hangs or is cut off"

    def _where(self) -> str:
        return "; ".join(
            f"rank {rank}: {peer.get('phase')} for {peer.get('seconds', 0):.0f} s"
            for rank, peer in enumerate(self._peers)
        )

    def _who(self, rank: int) -> str:
        peer = self._peers[rank]
        return f"rank {rank} (process {peer.get('process')} on {peer.get('host')})"

    def _end(self, text: str | None) -> None:
        """End this process from outside its main thread, which may be waiting where no exception reaches it."""
        try:
            tells = self.add(f"told on {self._host}", 1) == 1
        except RuntimeError:
            tells = int(os.environ.get("LOCAL_RANK", 0)) == 0
        if tells and text:
            print(f"error: {text}\n{RESUMABLE}", file=sys.stderr, flush=True)
        if live_views:
            with contextlib.suppress(OSError):
                os.write(1, b"\n\x1b[?25h")  # shows the cursor
        os._exit(1)


def _current_phase() -> str:
    """Return the phase that began last and has not ended."""
    return phases[-1][0] if phases else "between steps"
