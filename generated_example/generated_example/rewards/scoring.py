# vextract:template base/__package__/rewards/scoring.py
"""A scoring function over the samples of a batch, in their order, however slow or unreliable it is."""

import asyncio
import concurrent.futures
import math
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from .calls import Failure, attempt, attempt_async, is_async, source_of
from .components import plain
from .loop_thread import LoopThread
from .processes import payload_of, score_in_worker, start_pool
from .time_limit import TookTooLong, call_within

# In the results of a sample: 1.0 if it ran out of time or took its process with it, else 0.0.
UNSCORED = "unscored"
# The largest number that float32, which rewards are computed in, can hold.
LARGEST = 3.4028235e38


class ScoringError(RuntimeError):
    """A scoring function raised, or returned no score.

    Attributes:
        message: what is wrong; names the component, if several make up the score.
        hook_file: where, as "path:line".
        row: the first sample, in the order of the batch, that shows it; None: it is no single one's.
    """

    def __init__(self, message: str, hook_file: str, row: int | None) -> None:
        super().__init__(message, hook_file, row)  # all of them, so that it can be pickled
        self.message = message
        self.hook_file = hook_file
        self.row = row

    def __str__(self) -> str:
        return f"{self.message} (sample {self.row}, {self.hook_file})"


class Pending(Protocol):
    """A sample whose score is under way: a future of what the function returned, or a `Failure`."""

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


class Scorer:
    """Calls a scoring function for every sample of a batch.

    A plain function is called here, one sample after another, or in `num_workers` processes. One that is `async` is
    awaited for many samples at once. A sample that takes longer than `timeout`, or whose process dies, gets
    `timeout_score` and 1.0 as its component `unscored`; its process is killed and replaced. (Without processes, code in
    C that does not return cannot be interrupted, nor can a coroutine that blocks instead of awaiting.)

    Processes (see `processes`) and the event loop of coroutines are there from the first sample until `close`.

    Args:
        function: called as verl calls a `compute_score`: data_source, solution_str, ground_truth, extra_info, by name.
            It returns a number, or a dict with `score` and further components. For processes it must be defined at the
            top of a module or file.
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
        self.function = function
        self.is_async = is_async(function)
        self.timeout = timeout
        self.timeout_score = float(timeout_score)
        self.concurrency = concurrency
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
        """Score samples.

        Args:
            samples: the arguments of the function for each.
            begun: for each, what `begin` has returned for it; None: it was not begun. Empty: none was.

        Returns:
            For each sample, in order, a dict with `score` and the other components. They all have the same names; None:
            the function does not report it for this sample. A sample that was not scored has 0.0, or an empty text, for
            what the function reports for others of its data source.

        Raises:
            ScoringError: the function raised; the other samples are given up.
        """
        given = begun or [None] * len(samples)
        start = self.begin if self.is_aside or any(given) else self._when_asked
        pending: list[Pending] = []
        try:
            pending += [one or start(sample) for sample, one in zip(samples, given, strict=True)]
            results = [self._result(one, row) for row, one in enumerate(pending)]
            return aligned(results, [sample.get("data_source") for sample in samples])
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
            return self._loop.submit(self._awaited(sample))
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

    def _checked(self, outcome: Any, row: int) -> dict[str, Any]:
        if isinstance(outcome, Failure):
            raise ScoringError(outcome.text, outcome.hook_file, row)
        result = dict(outcome) if isinstance(outcome, dict) else {"score": outcome}
        if "score" not in result:
            names = ", ".join(map(str, result)) or "nothing"
            text = f"the reward is a dict without `score`; it has {names}"
            raise ScoringError(text, source_of(self.function), row)
        for name, value in list(result.items()):
            if type(value) is float and -LARGEST <= value <= LARGEST:  # as nearly all are
                continue
            value = result[name] = plain(value)
            if problem := problem_of(value, is_score=name == "score"):
                what = "the reward" if name == "score" else f"the component {name!r} of the reward"
                raise ScoringError(f"{what} is {problem}", source_of(self.function), row)
        if self.timeout is not None or self.num_workers:
            result.setdefault(UNSCORED, 0.0)
        return result

    def _result(self, pending: Pending, row: int) -> dict[str, Any]:
        try:
            return self._checked(pending.result(), row)
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

    async def _awaited(self, sample: Mapping[str, Any]) -> Any:
        """Await the function, when it is this sample's turn."""
        async with self._gate:
            task = asyncio.ensure_future(attempt_async(self.function, sample))
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


def problem_of(value: Any, *, is_score: bool) -> str | None:
    """Say what keeps a value from being a reward, or a component of one; None if nothing does.

    A reward is a finite number that float32 can hold, or a tensor or an array of one; a component may be other things
    as well, which are not averaged then.
    """
    if isinstance(value, str | bytes):
        return f"{value!r:.60}, not a number" if is_score else None
    try:
        number = float(value)
    except OverflowError:
        return "a whole number that is too large for float32"
    except (TypeError, ValueError, RuntimeError):
        return f"{_described(value)}, not a number" if is_score else None
    if not is_score:
        return None
    if not math.isfinite(number):
        return f"{number}, not a finite number"
    return f"{number:g}, too large for float32" if abs(number) > LARGEST else None


def _described(value: Any) -> str:
    """Describe in a few words what is not a number."""
    if value is None:
        return "None"
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{'an array' if type(value).__name__ == 'ndarray' else 'a tensor'} of shape {tuple(shape)}"
    return f"{value!r:.60}" if isinstance(value, complex) else f"a {type(value).__name__}"


def run_async(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end, also where this thread has a running event loop (as in a notebook)."""
    loop = LoopThread("scoring")
    try:
        return loop.submit(work).result()
    finally:
        loop.close()


def aligned(results: list[dict[str, Any]], sources: Sequence[Any] = ()) -> list[dict[str, Any]]:
    """Return the same names in every result; None: the sample has no such component.

    Args:
        results: the components of each sample. One that was not scored has failed in what others of its source report.
        sources: the data source of each sample.
    """
    if all(result.keys() == results[0].keys() for result in results):
        return results
    names = dict.fromkeys(name for result in results for name in result)
    reported: dict[Any, dict[str, Any]] = {}  # of each source, what stands for a component that was not scored
    for source, result in zip(sources, results, strict=False):
        for name, value in result.items():
            if isinstance(value, str) or problem_of(value, is_score=True) is None:
                reported.setdefault(source, {})[name] = "" if isinstance(value, str) else 0.0
    filled = [{**names, **result} for result in results]
    for source, result in zip(sources, filled, strict=False):
        if result.get(UNSCORED):
            result.update({name: value for name, value in reported[source].items() if result[name] is None})
    return filled
