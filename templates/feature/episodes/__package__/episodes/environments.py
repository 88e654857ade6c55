# vextract:template - edit freely
"""Calls environments, many at once, and keeps what goes wrong in one of them from the others.

An environment that raises, hangs or returns what nothing can be made of costs its own sample: it is called once more,
to be closed.
"""

import asyncio
import contextlib
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ..data.steps import Observation, UnusableStep, checked_step
from ..hooks import hook_file_of
from ..rewards.time_limit import TookTooLong, call_within


class Environment(Protocol):
    """Has what an environment must have: Gymnasium's `reset` and `step`, in text, as custom/env_wrapper.py describes.

    Both may be coroutines. `close()`, which may be one too, is called at the end of the episode if it is there, also
    where another call has failed.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any: ...

    def step(self, action: str) -> Any: ...


@dataclass(frozen=True)
class StepResult:
    """Holds what an environment makes of an action, as Gymnasium's `step` returns it."""

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """An environment that is of no more use.

    Attributes:
        kind: error or timeout.
        message: what happened, in one line.
        where: "path:line" in the project's own code.
    """

    kind: str
    message: str
    where: str


class Environments:
    """Calls environments, as `local.env` configures.

    Args:
        settings: `local.env`: timeout (seconds or null), concurrency, threads.
        make_env: the hook that makes one, called as `make_env(env_settings)`.
        env_settings: `data.env`.

    Attributes:
        seconds: how long at least one of them was at work, on the clock on the wall.
    """

    def __init__(self, settings: Any, make_env: Callable[[Any], Any], env_settings: Any) -> None:
        self.timeout: float | None = settings.timeout
        self.threads = bool(settings.threads)
        self.places = asyncio.Semaphore(int(settings.concurrency))
        self.make_env = make_env
        self.env_settings = env_settings
        self.seconds = self.since = 0.0
        self.at_work = 0

    async def start(self, seed: int, options: dict[str, Any]) -> Environment | Failure:
        """Make an environment, and reset it.

        What `reset` returns is not used: the episode begins with the prompt, which the dataset got from it.
        """
        with self._counting():
            made = self._plain(lambda: self.make_env(self.env_settings), "make_env", self.make_env)
        if isinstance(made, Failure):
            return made
        result = await self._called(made, "reset", seed=seed, options=options)
        if not isinstance(result, Failure):
            return made  # type: ignore[no-any-return]
        await self.close(made)
        return result

    async def step(self, env: Environment, action: str) -> StepResult | Failure:
        """Take an action in an environment."""
        result = await self._called(env, "step", action)
        if isinstance(result, Failure):
            return result
        try:
            return StepResult(*checked_step(result, env))
        except UnusableStep as error:
            return Failure("error", str(error), error.hook_file)

    async def close(self, env: Environment) -> None:
        """Tell an environment that it is no longer needed. Errors in that are ignored."""
        if hasattr(env, "close"):
            await self._called(env, "close")

    async def _called(self, env: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return what a method returns, or a Failure. Plain ones run at once, others as soon as there is a place."""
        method = getattr(env, name, None)
        with self._counting():
            if self.threads and method is not None and not inspect.iscoroutinefunction(method):
                async with self.places:
                    return await self._in_time(lambda: _in_thread(method, args, kwargs), method, name)
            result = self._plain(partial(_call, env, name, args, kwargs), name, method or env)
            if not inspect.isawaitable(result):
                return result
            async with self.places:
                return await self._in_time(lambda: _not_ending(result), method, name)

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        """Add to `seconds` while any environment is at work."""
        if not self.at_work:
            self.since = time.perf_counter()
        self.at_work += 1
        try:
            yield
        finally:
            self.at_work -= 1
            if not self.at_work:
                self.seconds += time.perf_counter() - self.since

    def _plain(self, call: Callable[[], Any], name: str, hook: Any) -> Any:
        """Return what a call returns, or a Failure."""
        try:
            return call_within(self.timeout, call)
        except TookTooLong as error:
            return self._late(name, error, hook)
        except (Exception, SystemExit) as error:
            return _failure(name, error, hook)

    def _late(self, name: str, error: BaseException, hook: Any) -> Failure:
        message = f"{name} took longer than local.env.timeout={self.timeout:g} s"
        return Failure("timeout", message, hook_file_of(error, hook))

    async def _in_time(self, pending: Callable[[], Awaitable[Any]], method: Any, name: str) -> Any:
        """Return what is awaited, or a Failure. What takes too long is abandoned; a thread, though, runs on."""
        task = asyncio.ensure_future(pending())
        try:
            done, _ = await asyncio.wait({task}, timeout=self.timeout)
        finally:
            if not task.done():  # it is late, or the episode is given up
                task.cancel()
        if not done:
            return self._late(name, TimeoutError(), method)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        return task.result() if error is None else _failure(name, error, method)


def _call(env: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return getattr(env, name)(*args, **kwargs)


async def _not_ending(result: Awaitable[Any]) -> Any:
    try:
        return await result
    except SystemExit as error:  # it would end the loop
        raise RuntimeError(repr(error)).with_traceback(error.__traceback__) from error


class DaemonThreads(ThreadPoolExecutor):
    """Runs each call in a thread of its own: a daemon, since one that hangs must not keep the program from ending."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call a function in a new thread; what no event loop can hold, such as a SystemExit, is a RuntimeError."""
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                held: BaseException = error
                if not isinstance(error, Exception) or isinstance(error, StopIteration):
                    held = RuntimeError(repr(error)).with_traceback(error.__traceback__)
                future.set_exception(held)

        threading.Thread(target=run, daemon=True, name="environment").start()
        return future


async def _in_thread(method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = await asyncio.get_running_loop().run_in_executor(_THREADS, partial(method, *args, **kwargs))
    return await result if inspect.isawaitable(result) else result


_THREADS = DaemonThreads()


def _failure(name: str, error: BaseException, hook: Any) -> Failure:
    text = " ".join(str(error).split())
    return Failure("error", f"{name} raised {type(error).__name__}: {text}", hook_file_of(error, hook))
