# vextract:template base/__package__/episodes/environments.py - edit freely
"""Calls the environments of a batch together, and keeps what goes wrong in one of them from the others.

An environment that raises, hangs or returns what nothing can be made of costs its own sample: it is not called again.
"""

import asyncio
import contextlib
import inspect
import math
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ..rewards.time_limit import TookTooLong, call_within
from ..training.hook_errors import hook_file_of
from .observations import Observation


class Environment(Protocol):
    """What an environment must have: Gymnasium's `reset` and `step`, in text. custom/env_wrapper.py describes them.

    Both may be coroutines. `close()`, which may be one too, is called at the end of the episode if it is there.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any: ...

    def step(self, action: str) -> Any: ...


@dataclass(frozen=True)
class StepResult:
    """What an environment makes of an action, as Gymnasium's `step` returns it."""

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


def unusable(env: Environment, what: str) -> Failure:
    """Return the failure of an environment whose `step` has returned what cannot be used."""
    return Failure("error", what, hook_file_of(TypeError(), env.step))


class Environments:
    """Calls environments, as `local.env` configures.

    Args:
        settings: `local.env`: timeout (seconds or null), concurrency, threads.
        make_env: the hook that makes one, called as `make_env(env_settings)`.
        env_settings: `data.env`.

    Attributes:
        seconds: how long all calls together have taken, on the clock on the wall.
    """

    def __init__(self, settings: Any, make_env: Callable[[Any], Any], env_settings: Any) -> None:
        self.timeout: float | None = settings.timeout
        self.threads = bool(settings.threads)
        self.concurrency = int(settings.concurrency)
        self.make_env = make_env
        self.env_settings = env_settings
        self.seconds = 0.0

    async def start(self, resets: Sequence[tuple[int, dict[str, Any]]]) -> list[Environment | Failure]:
        """Make an environment for each seed and options, and reset it.

        What `reset` returns is not used: the episode begins with the prompt, which the dataset got from it.
        """
        made = [self._plain(lambda: self.make_env(self.env_settings), "make_env", self.make_env) for _ in resets]
        ready = [index for index, env in enumerate(made) if not isinstance(env, Failure)]
        calls = [(made[i], "reset", (), {"seed": resets[i][0], "options": resets[i][1]}) for i in ready]
        for index, result in zip(ready, await self._call_all(calls), strict=True):
            if isinstance(result, Failure):
                made[index] = result
        return made

    async def step(self, actions: Sequence[tuple[Environment, str]]) -> list[StepResult | Failure]:
        """Take an action in each of several environments, at once as far as they allow it."""
        results = await self._call_all([(env, "step", (action,), {}) for env, action in actions])
        return [
            result if isinstance(result, Failure) else step_result(result, env)
            for (env, _), result in zip(actions, results, strict=True)
        ]

    async def close(self, environments: Sequence[Environment]) -> None:
        """Tell environments that they are no longer needed. Errors in that are ignored."""
        await self._call_all([(env, "close", (), {}) for env in environments if hasattr(env, "close")])

    async def _call_all(self, calls: Sequence[tuple[Any, str, tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
        """Return each call's result, or its Failure. Plain calls run one after another, coroutines at once."""
        before = time.perf_counter()
        places = asyncio.Semaphore(self.concurrency)
        results: list[Any] = [None] * len(calls)
        waiting: list[Awaitable[None]] = []

        async def wait(index: int, pending: Callable[[], Awaitable[Any]]) -> None:
            env, name = calls[index][:2]
            async with places:
                results[index] = await self._in_time(pending, getattr(env, name), name)

        for index, (env, name, args, kwargs) in enumerate(calls):
            method = getattr(env, name, None)
            if self.threads and method is not None and not inspect.iscoroutinefunction(method):
                waiting.append(wait(index, lambda m=method, a=args, k=kwargs: _in_thread(m, a, k)))  # type: ignore[misc]
                continue
            result = self._plain(partial(_call, env, name, args, kwargs), name, method or env)
            if inspect.isawaitable(result):
                waiting.append(wait(index, lambda r=result: r))  # type: ignore[misc]
            else:
                results[index] = result
        if waiting:
            await asyncio.gather(*waiting)
        self.seconds += time.perf_counter() - before
        return results

    def _plain(self, call: Callable[[], Any], name: str, hook: Any) -> Any:
        """Return what a call returns, or a Failure."""
        try:
            return call_within(self.timeout, call)
        except TookTooLong as error:
            return self._late(name, error, hook)
        except Exception as error:
            return _failure(name, error, hook)

    def _late(self, name: str, error: BaseException, hook: Any) -> Failure:
        message = f"{name} took longer than local.env.timeout={self.timeout:g} s"
        return Failure("timeout", message, hook_file_of(error, hook))

    async def _in_time(self, pending: Callable[[], Awaitable[Any]], method: Any, name: str) -> Any:
        """Return what is awaited, or a Failure. What takes too long is abandoned; a thread, though, runs on."""
        task = asyncio.ensure_future(pending())
        done, _ = await asyncio.wait({task}, timeout=self.timeout)
        if not done:
            task.cancel()
            return self._late(name, TimeoutError(), method)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        return task.result() if error is None else _failure(name, error, method)


def _call(env: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return getattr(env, name)(*args, **kwargs)


async def _in_thread(method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function in a thread of its own: a daemon, since one that hangs must not keep the program from ending."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def settle(result: Any, error: Exception | None) -> None:
        if future.done():  # it was abandoned
            return
        if error is None:
            future.set_result(result)
        else:  # a future cannot hold a StopIteration
            future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)

    def run() -> None:
        outcome: tuple[Any, Exception | None]
        try:
            outcome = method(*args, **kwargs), None
        except Exception as error:
            outcome = None, error
        with contextlib.suppress(RuntimeError):  # the run may have ended meanwhile, and its loop with it
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True, name="environment").start()
    result = await future
    return await result if inspect.isawaitable(result) else result


def step_result(result: Any, env: Any) -> StepResult | Failure:
    """Return what `step` of an environment has returned, or why it cannot be used."""
    if not isinstance(result, tuple) or len(result) != 5:
        found = f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
        return unusable(env, f"step returned {found}, not (observation, reward, terminated, truncated, info)")
    observation, reward, terminated, truncated, info = result
    if not isinstance(observation, str) and not _are_messages(observation):
        kind = type(observation).__name__
        return unusable(env, f"step returned a {kind} as observation, not text or a list of {{role, content}}")
    try:
        number = float(reward)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        shown = repr(reward)[:60] if isinstance(reward, str | float | None) else f"a {type(reward).__name__}"
        return unusable(env, f"step returned {shown} as reward, not a finite number")
    return StepResult(observation, number, bool(terminated), bool(truncated), dict(info or {}))


def _are_messages(observation: Any) -> bool:
    return isinstance(observation, Sequence) and all(
        isinstance(message, Mapping) and {"role", "content"} <= message.keys() for message in observation
    )


def _failure(name: str, error: BaseException, hook: Any) -> Failure:
    text = " ".join(str(error).split())
    return Failure("error", f"{name} raised {type(error).__name__}: {text}", hook_file_of(error, hook))
