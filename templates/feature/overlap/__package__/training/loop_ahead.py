# vextract:template - edit freely
"""verl's own reward managers, in an event loop that goes on while other responses are written."""

import queue
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from ..rewards.loop_thread import LoopThread
from ..rewards.manager import BEGUN
from ..rewards.scoring import ScoringError
from ..vendored.protocol import DataProto
from ..vendored.workers.reward_loop import registry
from .reward_loop import RewardLoop, lengths_of

# Where verl's own managers are.
VERLS = str(registry.__package__)
# How long to wait for the next call, before looking whether all is done.
SECONDS = 0.01


@dataclass(frozen=True)
class Begun:
    """A response whose score is under way.

    Attributes:
        tokens: of the response, which the score is of.
        pending: what the manager will return.
    """

    tokens: list[int]
    pending: "Future[dict[str, Any]]"


class LoopAhead(RewardLoop):
    """A `RewardLoop` whose event loop has a thread of its own, so that responses can be begun with before a batch."""

    _here: "CallsWhenAsked | None"  # None: functions run in threads, several at once

    def begins(self, in_thread: bool) -> bool:
        """Tell whether a response can be scored while others are still written.

        It can by verl's own managers, which call functions in threads in any case: what they read of a response is
        known.
        """
        return type(self.manager).__module__.startswith(VERLS)

    def begin(self, sample: DataProto) -> Begun:
        """Begin to score one response beside this thread; `sample` has one row, as for `__call__`."""
        length = lengths_of(sample)[0]
        tokens = sample.batch["responses"][0, :length].tolist()
        return Begun(tokens, self._thread.submit(self._one(sample, 0)))

    def give_up(self, begun: Sequence[Begun | None]) -> None:
        """Drop what was begun."""
        for one in begun:
            if one is not None:
                one.pending.cancel()

    def close(self) -> None:
        """End the thread."""
        self._thread.close()

    def _begin_loop(self) -> None:
        self._thread = LoopThread("reward loop")
        self._here = None

    def _call_here(self) -> None:
        self._here = CallsWhenAsked()
        self._thread.call_by(self._here)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._thread.submit(work).result()

    def _score(self, data: DataProto) -> list[dict[str, Any]]:
        lengths = lengths_of(data).tolist()
        responses = [ids[:n] for ids, n in zip(data.batch["responses"].tolist(), lengths, strict=True)]
        begun: Sequence[Begun | None] = data.meta_info.get(BEGUN) or [None] * len(data)
        pending = [
            one.pending
            if one is not None and one.tokens == tokens
            else self._thread.submit(self._one(data[row : row + 1], row))
            for row, (one, tokens) in enumerate(zip(begun, responses, strict=True))
        ]
        try:
            if self._here is not None:
                self._here.run_until(pending)
            else:
                wait(pending, return_when=FIRST_EXCEPTION)
            failed = [row for row, one in enumerate(pending) if one.done() and one.exception() is not None]
            return [_result(pending[row], row) for row in failed or range(len(pending))]
        finally:
            for one in pending:
                one.cancel()


def _result(pending: "Future[dict[str, Any]]", row: int) -> dict[str, Any]:
    try:
        return pending.result()
    except ScoringError as error:  # one that was begun by itself knows no row
        raise ScoringError(error.message, error.hook_file, row) from error.__cause__


class CallsWhenAsked(ThreadPoolExecutor):
    """Runs what an event loop has for other threads in the one that calls `run_until`, one after the other."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Keep a call for `run_until`."""
        future: Future[Any] = Future()
        self._calls.put((future, lambda: function(*args, **kwargs)))
        return future

    def run_until(self, pending: Iterable["Future[Any]"]) -> None:
        """Run calls in this thread until all that is pending is done, or one of it has failed."""
        waiting, look = list(pending), False
        while waiting:
            try:
                future, call = self._calls.get(timeout=SECONDS)
            except queue.Empty:
                look = True
            else:
                if future.set_running_or_notify_cancel():
                    try:
                        future.set_result(call())
                    except Exception as error:
                        look = True  # whoever has asked for it may go on without it
                        future.set_exception(error)
            if look:
                if any(one.done() and not one.cancelled() and one.exception() is not None for one in waiting):
                    return
                waiting = [one for one in waiting if not one.done()]
