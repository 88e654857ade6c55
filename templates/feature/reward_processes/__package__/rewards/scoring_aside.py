# vextract:template
"""Scoring functions that are slow or unreliable: in processes, with a time limit, or beside the thread that asks."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from .loop_thread import LoopThread
from .processes import payload_of, score_in_worker, start_pool
from .scoring import Scorer, aligned, attempt, failure_of, is_async, problem_of, source_of
from .time_limit import TookTooLong, call_within

# In the results of a sample: 1.0 if it ran out of time or took its process with it, else 0.0.
UNSCORED = "unscored"


class Pending(Protocol):
    """A sample whose score is under way: a future of what the function returned, or a `ScoringError`."""

    def result(self) -> Any:
        """Wait for it; raises concurrent.futures.TimeoutError, or pebble's ProcessExpired."""

    def cancel(self) -> object:
        """Give it up, if nobody has begun with it."""


class _WhenAsked:
    """A sample that is scored when its score is asked for."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result = call

    def cancel(self) -> None:
        pass


class ScorerAside(Scorer):
    """Calls a scoring function for every sample of a batch, in its place or aside.

    A plain function is called here, one sample after another, or in `num_workers` processes. One that is `async` is
    awaited for many samples at once. A sample that takes longer than `timeout`, or whose process dies, gets
    `timeout_score` and 1.0 as its component `unscored`; its process is killed and replaced. (Without processes, code in
    C that does not return cannot be interrupted, nor can a coroutine that blocks instead of awaiting.)

    Processes (see `processes`) and the event loop of coroutines are there from the first sample until `close`.

    Args:
        function: see `Scorer`. For processes it must be defined at the top of a module or file.
        num_workers: processes; 0: none.
        timeout: seconds for a sample; null: no limit.
        timeout_score: the score of a sample that was not scored.
        concurrency: how many coroutines run at once.

    Raises:
        ValueError: the function cannot be run as asked.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        num_workers: int = 0,
        timeout: float | None = None,
        timeout_score: float = 0.0,
        concurrency: int = 64,
    ) -> None:
        super().__init__(function)
        self.is_async = is_async(function)
        self.concurrency = concurrency
        self.timeout = timeout
        self.timeout_score = float(timeout_score)
        self.num_workers = 0 if self.is_async else num_workers
        self._payload = payload_of(function) if self.num_workers else b""
        self._starting = threading.Lock()
        self._pool: Any = None
        self._loop: LoopThread | None = None
        self._thread: concurrent.futures.ThreadPoolExecutor | None = None
        self._expired: tuple[type[BaseException], ...] = ()
        self._warned = False

    def __call__(
        self, samples: Sequence[Mapping[str, Any]], begun: Sequence[Pending | None] = ()
    ) -> list[dict[str, Any]]:
        """Score samples, as `Scorer` does.

        Args:
            samples: the arguments of the function for each.
            begun: for each, what `begin` has returned for it; None: it was not begun. Empty: none was.

        Returns:
            As `Scorer`. A sample that was not scored has 0.0, or an empty text, for what the function reports for
            others of its data source.
        """
        given = begun or [None] * len(samples)
        start = self.begin if self.is_aside or any(given) else self._when_asked
        pending: list[Pending] = []
        try:
            pending += [one or start(sample) for sample, one in zip(samples, given, strict=True)]
            results = [self._result(one, row) for row, one in enumerate(pending)]
            return filled(results, [sample.get("data_source") for sample in samples])
        except BaseException:  # also Ctrl-C: nothing is left running
            self.give_up([*pending, *filter(None, given)])
            raise

    @property
    def is_aside(self) -> bool:
        """Tell whether samples are scored elsewhere than in the thread that asks for it."""
        return self.is_async or self.num_workers > 0

    def _prepare(self) -> None:
        """Start what samples are scored in, which takes a moment the first time."""
        with self._starting:
            if self.is_async:
                self._loop = self._loop or self._new_loop()
            elif self.num_workers:
                self._pool = self._pool or self._new_pool()
            elif self._thread is None:
                self._thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="scoring")

    def begin(self, sample: Mapping[str, Any]) -> Pending:
        """Begin to score a sample beside this thread: a plain function without processes in one thread of its own."""
        self._prepare()
        if self._loop is not None:
            return self._loop.submit(self._in_time(sample))
        if self._pool is not None:
            future: Pending = self._pool.schedule(score_in_worker, args=(dict(sample),), timeout=self.timeout)
            return future
        assert self._thread is not None
        return self._thread.submit(self._called, sample)

    def give_up(self, pending: Sequence[Pending]) -> None:
        """Drop samples that were begun. What processes are at work on ends with them; new ones start when needed."""
        for one in pending:
            one.cancel()
        if self._pool is not None:
            self.close()

    def close(self) -> None:
        """End the processes, whatever they are doing, and the threads. The scorer starts new ones if it goes on."""
        pool, loop, thread = self._pool, self._loop, self._thread
        self._pool = self._loop = self._thread = None
        if pool is not None:
            pool.stop()
            pool.join()
        if loop is not None:
            loop.close()
        if thread is not None:
            thread.shutdown(wait=False, cancel_futures=True)

    def checked(self, outcome: Any, row: int) -> dict[str, Any]:
        """Return the components of a sample, which say whether it was scored if that is not sure."""
        result = super().checked(outcome, row)
        if self.timeout is not None or self.num_workers:
            result.setdefault(UNSCORED, 0.0)
        return result

    def _result(self, pending: Pending, row: int) -> dict[str, Any]:
        try:
            return self.checked(pending.result(), row)
        except concurrent.futures.TimeoutError:
            return self._unscored(f"took longer than {self.timeout:g} s")
        except self._expired as error:
            return self._unscored(f"ended its process (exit code {error.exitcode})")  # type: ignore[attr-defined]

    def _when_asked(self, sample: Mapping[str, Any]) -> Pending:
        return _WhenAsked(lambda: self._called(sample))

    def _called(self, sample: Mapping[str, Any]) -> Any:
        """Call the function in this thread."""
        try:
            return call_within(self.timeout, lambda: attempt(self.function, sample))
        except TookTooLong:
            raise concurrent.futures.TimeoutError from None

    async def _in_time(self, sample: Mapping[str, Any]) -> Any:
        """Await the function, when it is this sample's turn."""
        async with self._gate:
            task = asyncio.ensure_future(_attempt(self.function, sample))
            try:
                done, _ = await asyncio.wait([task], timeout=self.timeout)
            finally:
                task.cancel()
            if not done:
                raise concurrent.futures.TimeoutError
            return task.result()

    def _new_loop(self) -> LoopThread:
        self._gate = asyncio.Semaphore(self.concurrency)
        return LoopThread("scoring")

    def _new_pool(self) -> Any:
        pool = start_pool(self._payload, self.num_workers)
        from pebble import ProcessExpired

        self._expired = (ProcessExpired,)
        return pool

    def _unscored(self, why: str) -> dict[str, Any]:
        if not self._warned:
            self._warned = True
            print(f"warning: a sample {why} and scores {self.timeout_score:g}\n  hook: {source_of(self.function)}")
            print(f"  (shown once; the metric reward/{UNSCORED}/mean counts them)", flush=True)
        return {"score": self.timeout_score, UNSCORED: 1.0}


async def _attempt(function: Callable[..., Any], sample: Mapping[str, Any]) -> Any:
    """Await what a function returns for a sample, as `attempt` does."""
    try:
        return await function(**sample)
    except (Exception, SystemExit) as error:
        return failure_of(function, error)


def filled(results: list[dict[str, Any]], sources: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the same names in every result, as `aligned` does.

    Args:
        results: the components of each sample. One that was not scored has failed in what others of its source report.
        sources: the data source of each sample.
    """
    reported: dict[Any, dict[str, Any]] = {}  # of each source, what stands for a component that was not scored
    for source, result in zip(sources, results, strict=True):
        for name, value in result.items():
            if isinstance(value, str) or problem_of(value) is None:
                reported.setdefault(source, {})[name] = "" if isinstance(value, str) else 0.0
    found = aligned(results)
    for source, result in zip(sources, found, strict=True):
        if result.get(UNSCORED):
            result.update({name: value for name, value in reported[source].items() if result[name] is None})
    return found
