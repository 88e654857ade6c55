# vextract:template - edit freely
"""One job at a time beside the training loop."""

import copy
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

import torch.distributed as dist

from .distributed import FOREVER, Ranks


class Background:
    """Does a job in a thread. Whoever starts the next one, or ends the run, waits for it.

    Attributes:
        name: of the job that is under way, or whose end nobody has waited for; None: there is none.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self._done: Future[None] = Future()

    def start(self, name: str, job: Callable[[], None]) -> None:
        """Begin a job. The one before must have been waited for."""
        self.name = name
        self._done = Future()
        # The process may end without the job, if its owner insists.
        threading.Thread(target=_do, args=(job, self._done), daemon=True, name=name).start()

    def is_going_on(self) -> bool:
        """Tell whether a job has not ended yet."""
        return self.name is not None and not self._done.done()

    def has_failed(self) -> bool:
        """Tell whether a job has ended with an error that nobody has been told."""
        return self.name is not None and self._done.done() and self._done.exception() is not None

    def wait(self) -> None:
        """Wait for the end of the job, if there is one, and raise its error."""
        if self.name is not None:
            failure = self._done.exception()
            self.name = None
            if failure is not None:
                raise failure

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end of the job, however it ends, for at most so long; `wait` still raises its error."""
        if self.name is not None:
            wait([self._done], seconds)

    def discard(self) -> None:
        """Wait for the end of the job, and forget what came of it."""
        self.join()
        self.name = None


def _do(job: Callable[[], None], done: "Future[None]") -> None:
    try:
        job()
    except BaseException as error:
        done.set_exception(error)
    else:
        done.set_result(None)


def without_deadline(ranks: Ranks) -> Ranks:
    """Return the same processes in a group of their own, which waits as long as a disk takes; all must call this.

    It may be used from another thread than the training loop's, by one thread at a time.
    """
    other = copy.copy(ranks)
    other.peers = None
    if ranks.world_size > 1:
        other.group = other.patient = dist.new_group(backend="gloo", timeout=FOREVER)
    return other
