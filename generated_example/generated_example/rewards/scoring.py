# vextract:template base/__package__/rewards/scoring.py
"""A scoring function over the samples of a batch, in their order, however slow or unreliable it is."""

import asyncio
import concurrent.futures
import importlib
import importlib.util
import inspect
import math
import multiprocessing
import multiprocessing.forkserver
import os
import pickle
import signal
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .components import ComponentError
from .time_limit import TookTooLong, call_within

# In the results of a sample: 1.0 if it ran out of time or took its process with it, else 0.0.
UNSCORED = "unscored"
# The largest number that float32, which rewards are computed in, can hold.
LARGEST = 3.4028235e38
LIBRARY = str(Path(__file__).parent)


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


@dataclass(frozen=True)
class Failure:
    """Holds what a scoring function raised, in a form that travels between processes."""

    text: str
    hook_file: str


class Scorer:
    """Calls a scoring function for every sample of a batch.

    A plain function is called here, one sample after another, or in `num_workers` processes. One that is `async` is
    awaited for many samples at once. A sample that takes longer than `timeout`, or whose process dies, gets
    `timeout_score` and 1.0 as its component `unscored`; its process is killed and replaced. (Without processes, code in
    C that does not return cannot be interrupted, nor can a coroutine that blocks instead of awaiting.)

    Processes are forked from a server process that imports the function's module once, and not from this process, with
    its threads and its GPU. They end with `close`, and with this process however it ends.

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
        self.is_async = _is_async(function)
        self.timeout = timeout
        self.timeout_score = float(timeout_score)
        self.concurrency = concurrency
        self.num_workers = 0 if self.is_async else num_workers
        self._payload = _payload(function) if self.num_workers else b""
        self._pool: Any = None
        self._warned = False

    def __call__(self, samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Score samples.

        Args:
            samples: the arguments of the function for each.

        Returns:
            For each sample, in order, a dict with `score` and the other components. They all have the same names: where
            a sample lacks what others have, it is 0.0, or an empty text.

        Raises:
            ScoringError: the function raised; the other samples are given up.
        """
        if self.is_async:
            results = self._in_coroutines(samples)
        elif self.num_workers:
            results = self._in_processes(samples)
        else:
            results = [self._here(sample, row) for row, sample in enumerate(samples)]
        return aligned(results)

    def close(self) -> None:
        """End the processes, whatever they are doing. The scorer starts new ones if it is called again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.stop()
            pool.join()

    def _checked(self, outcome: Any, row: int) -> dict[str, Any]:
        if isinstance(outcome, Failure):
            raise ScoringError(outcome.text, outcome.hook_file, row)
        result = outcome if isinstance(outcome, dict) else {"score": outcome}
        if "score" not in result:
            names = ", ".join(map(str, result)) or "nothing"
            text = f"the reward is a dict without `score`; it has {names}"
            raise ScoringError(text, source_of(self.function), row)
        for name, value in result.items():
            if problem := problem_of(value, is_score=name == "score"):
                what = "the reward" if name == "score" else f"the component {name!r} of the reward"
                raise ScoringError(f"{what} is {problem}", source_of(self.function), row)
        if self.timeout is not None or self.num_workers:
            result.setdefault(UNSCORED, 0.0)
        return result

    def _here(self, sample: Mapping[str, Any], row: int) -> dict[str, Any]:
        """Score a sample in this process."""
        try:
            outcome = call_within(self.timeout, lambda: _attempt(self.function, sample))
        except TookTooLong:
            return self._unscored(f"took longer than {self.timeout:g} s")
        return self._checked(outcome, row)

    def _in_processes(self, samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        from pebble import ProcessExpired

        if self._pool is None:
            self._pool = _start_pool(self._payload, self.num_workers, inspect.getmodule(raw_function(self.function)))
        futures = [self._pool.schedule(_score_in_worker, args=(dict(s),), timeout=self.timeout) for s in samples]
        results = []
        try:
            for row, future in enumerate(futures):
                try:
                    results.append(self._checked(future.result(), row))
                except concurrent.futures.TimeoutError:
                    results.append(self._unscored(f"took longer than {self.timeout:g} s"))
                except ProcessExpired as error:
                    results.append(self._unscored(f"ended its process (exit code {error.exitcode})"))
        except BaseException:  # also Ctrl-C: nothing is left running
            self.close()
            raise
        return results

    def _in_coroutines(self, samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        async def one(sample: Mapping[str, Any], gate: asyncio.Semaphore) -> Any:
            async with gate:
                task = asyncio.ensure_future(_attempt_async(self.function, sample))
                done, _ = await asyncio.wait([task], timeout=self.timeout)
                if done:
                    return task.result()
                task.cancel()
                return None

        async def all_of_them() -> list[dict[str, Any]]:
            gate = asyncio.Semaphore(self.concurrency)
            tasks = [asyncio.ensure_future(one(sample, gate)) for sample in samples]
            results = []
            try:
                for row, task in enumerate(tasks):
                    outcome = await task
                    late = f"took longer than {self.timeout:g} s" if outcome is None else ""
                    results.append(self._unscored(late) if late else self._checked(outcome, row))
            finally:
                for task in tasks:
                    task.cancel()
            return results

        return run_async(all_of_them)

    def _unscored(self, why: str) -> dict[str, Any]:
        if not self._warned:
            self._warned = True
            print(f"warning: a sample {why} and scores {self.timeout_score:g}\n  hook: {source_of(self.function)}")
            print(f"  (shown once; the metric reward/{UNSCORED}/mean counts them)", flush=True)
        return {"score": self.timeout_score, UNSCORED: 1.0}


def raw_function(function: Any) -> Any:
    """Return the function that the owner wrote: verl wraps it, with its settings, in functools.partial."""
    arguments = getattr(function, "args", ())
    inner: Any = arguments[0] if arguments and callable(arguments[0]) else getattr(function, "func", function)
    return inner if callable(inner) else function


def source_of(hook: Any) -> str:
    """Return where a function, a class or an object's class is defined, as "path:line"."""
    target = raw_function(hook)
    target = target if inspect.isroutine(target) or inspect.isclass(target) else type(target)
    try:
        return f"{inspect.getsourcefile(target)}:{inspect.getsourcelines(target)[1]}"
    except (OSError, TypeError):
        return repr(hook)


def own_line(error: BaseException) -> str | None:
    """Return the last line of a traceback that is in neither a library nor this directory, as "path:line"."""
    installed = (sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), sys.base_prefix + "/lib", LIBRARY, "<")
    own = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(installed)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else None


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


def _is_async(function: Any) -> bool:
    raw = raw_function(function)
    return inspect.iscoroutinefunction(raw) or inspect.iscoroutinefunction(getattr(raw, "__call__", None))  # noqa: B004


def _attempt(function: Callable[..., Any], sample: Mapping[str, Any]) -> Any:
    try:
        return function(**sample)
    except (Exception, SystemExit) as error:
        return _failure(function, error)


async def _attempt_async(function: Callable[..., Any], sample: Mapping[str, Any]) -> Any:
    try:
        return await function(**sample)
    except Exception as error:
        return _failure(function, error)


def _failure(function: Callable[..., Any], error: BaseException) -> Failure:
    what = "the reward"
    hook: Any = function
    if isinstance(error, ComponentError) and error.__cause__ is not None:
        what = f"the component {error.component!r} of the reward"
        hook = getattr(raw_function(function), "functions", {}).get(error.component, function)
        error = error.__cause__
    if hasattr(error, "hook_file"):  # it knows better
        return Failure(f"{what}: {error}", error.hook_file)
    own = raw_function(hook)
    if isinstance(error, TypeError) and str(error).startswith(f"{getattr(own, '__qualname__', None)}() "):
        called = "it is called with data_source, solution_str, ground_truth and extra_info, by name"
        return Failure(f"{what} cannot be called: {error}\n  {called}", source_of(own))
    return Failure(f"{what} raised {type(error).__name__}: {error}", own_line(error) or source_of(hook))


def run_async(work: Callable[[], Any]) -> Any:
    """Run a coroutine to its end, also where this thread has a running event loop (as in a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(lambda: asyncio.run(work())).result()


def aligned(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the same names in every result."""
    names: dict[str, Any] = {}
    for result in results:
        for name, value in result.items():
            names.setdefault(name, "" if isinstance(value, str) else 0.0)
    if all(len(result) == len(names) for result in results):
        return results
    return [{**names, **result} for result in results]


# Worker processes


def _payload(function: Callable[..., Any]) -> bytes:
    """Pickle what a worker needs to have the function as well, with the files of modules that have no import name."""
    raw = raw_function(function)
    parts = getattr(raw, "functions", {"": raw}).values()
    files = {}
    for part in parts:
        module = _module_of(part)
        if module is not None and not _can_be_imported(module.__name__):
            files[module.__name__] = str(Path(inspect.getsourcefile(module) or "").resolve())
    try:
        return pickle.dumps((files, pickle.dumps(function)))
    except Exception as error:
        raise ValueError(
            f"the scoring function cannot be sent to worker processes ({error}): define it at the top of a module, "
            "or set num_workers=0"
        ) from error


def _module_of(function: Any) -> Any:
    """Return the module that a function is defined in, made known by its name if whoever loaded it did not do so."""
    name, names = getattr(function, "__module__", ""), getattr(function, "__globals__", None)
    known = vars(sys.modules[name]) if name in sys.modules else None
    if names is not None and known is not names and not _can_be_imported(name):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(names)
    return inspect.getmodule(function)


def _can_be_imported(name: str) -> bool:
    """Tell whether another process finds a module by its name, rather than this one by having loaded it from a file."""
    package = name.partition(".")[0]
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    return name != "__main__" and any(find is not None and find(package, None) is not None for find in finders)


def _start_pool(payload: bytes, num_workers: int, module: Any) -> Any:
    try:
        from pebble import ProcessPool
    except ImportError as error:
        raise ImportError("scoring in processes needs pebble\nhint: pip install pebble, or num_workers=0") from error
    context = multiprocessing.get_context("forkserver")
    preload = [__name__] + [module.__name__] * (module is not None and _can_be_imported(module.__name__))
    context.set_forkserver_preload(preload)
    # The server is a fresh interpreter: what this one can import, it can, so that workers need not import it each.
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*sys.path, path]))
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        os.environ.update({"PYTHONPATH": path} if path is not None else {})
    return ProcessPool(num_workers, initializer=_begin_worker, initargs=(payload,), context=context)


_worker_function: Any = None


def _begin_worker(payload: bytes) -> None:
    """Prepare a worker: it ignores Ctrl-C, which is the trainer's affair, and ends when the trainer has ended."""
    global _worker_function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _end_with_parent()
    files, function = pickle.loads(payload)
    for name, file in files.items():
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    _worker_function = pickle.loads(function)


def _end_with_parent() -> None:
    """Have the kernel kill this process when the server that forked it goes, which goes with the trainer."""
    if sys.platform == "linux":
        import ctypes

        # The server ends once everybody has closed this end of its pipe, and workers inherit one.
        kept = getattr(getattr(multiprocessing.forkserver, "_forkserver", None), "_forkserver_alive_fd", None)
        if kept is not None:
            os.close(kept)
        parent = os.getppid()
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:  # it went before that
            os._exit(1)


def _score_in_worker(sample: dict[str, Any]) -> Any:
    return _attempt(_worker_function, sample)
