# vextract:template base/__package__/run/peers.py - edit freely
"""The other processes of a run, met in the store that all share: waiting here has no deadline.

torchrun ends all processes of its machine when one of them has failed or was killed.
"""

import os
import re
import time

import torch.distributed as dist

HINT = "hint: the same command goes on from the last checkpoint in trainer.default_local_dir"
# How torch's backends report a peer that has ended or never joined. Some of these errors have no class of their own.
CONNECTION = re.compile(r"gloo|NCCL|Connection (closed|reset|refused)|Broken pipe|Timed out waiting", re.IGNORECASE)


class Peers:
    """The processes of a run, of which this is one.

    Args:
        store: that all processes share.
        rank: this process.
        world_size: how many there are.
    """

    def __init__(self, store: dist.Store, rank: int, world_size: int) -> None:
        self.store = store
        self.rank = rank
        self.world_size = world_size

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

    def all_arrive(self, place: str, seconds: float) -> bool:
        """Tell whether every process calls this with the same place within the time."""
        try:
            return self._wait(self._arrived(place), seconds)
        except RuntimeError:
            return False

    def wait_for_all(self, place: str) -> None:
        """Return when every process has called this with the same place, however long that takes."""
        self._wait(self._arrived(place))

    def wait_for_driver(self, place: str) -> None:
        """Return when rank 0 has called this with the same place, however long that takes."""
        if self.rank == 0:
            self.store.set(f"driver/{place}", "here")
        else:
            self._wait(f"driver/{place}")

    def _arrived(self, place: str) -> str:
        """Say that this process has come to a place; returns the key that is set once all have."""
        if self.store.add(f"arrived/{place}", 1) == self.world_size:
            self.store.set(f"all/{place}", "yes")
        return f"all/{place}"

    def _wait(self, key: str, seconds: float | None = None) -> bool:
        """Wait until a key is set; tells whether it is after so many seconds, None: however many."""
        begun, pause = time.monotonic(), 0.0005
        while not self.store.check([key]):
            if seconds is not None and time.monotonic() - begun > seconds:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return True


def is_connection_error(error: BaseException | None) -> bool:
    """Tell whether an exception only says that another process is gone, or has not come."""
    while error is not None:
        if isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and CONNECTION.search(str(error))):
            return True
        error = error.__cause__
    return False
