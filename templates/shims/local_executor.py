# vextract:template - edit freely
"""Remote calls of upstream, carried out by threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import cache
from typing import Any


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="local-executor")


def submit(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Start `function` in the background; what it raises comes out of `result()`."""
    return _executor().submit(function, *args, **kwargs)


def fetch(refs: Any, timeout: float | None = None) -> Any:
    """Return the result of a future, the results of a list of futures; anything else is returned as it is.

    Raises:
        TimeoutError: no result within `timeout` seconds.
    """
    if isinstance(refs, (list, tuple)):
        return [fetch(ref, timeout) for ref in refs]
    return refs.result(timeout) if isinstance(refs, Future) else refs


def wait(
    futures: Sequence[Future[Any]], num_returns: int = 1, timeout: float | None = None
) -> tuple[list[Future[Any]], list[Future[Any]]]:
    """Wait until `num_returns` of the futures are done, or until `timeout` seconds have passed: (ready, pending)."""
    ready: set[Future[Any]] = set()
    pending = set(futures)
    while pending and len(ready) < num_returns:
        when = ALL_COMPLETED if num_returns >= len(futures) else FIRST_COMPLETED
        done, pending = wait_for(pending, timeout, when)
        ready |= done
        if not done:
            break
    first = [future for future in futures if future in ready][:num_returns]
    return first, [future for future in futures if future not in first]
