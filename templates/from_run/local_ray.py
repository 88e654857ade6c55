# vextract:hook  yours: written once, never touched by an upgrade
"""What code asks of Ray, done in this process: a remote call is a future on a thread."""

import inspect
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any

_POOL = ThreadPoolExecutor(64)


class Remote:
    """A function, or a class, that is called by `remote`."""

    def __init__(self, called: Callable[..., Any], pool: ThreadPoolExecutor = _POOL) -> None:
        self.called, self.pool = called, pool

    def options(self, **others: Any) -> "Remote":
        """Return the same: there is one machine, and it is this one."""
        return self

    def remote(self, *given: Any, **named: Any) -> Any:
        """Return a future of the call; of a class, an actor."""
        if inspect.isclass(self.called):
            return Actor(self.called(*map(get, given), **{name: get(value) for name, value in named.items()}))
        return self.pool.submit(lambda: self.called(*map(get, given), **{n: get(value) for n, value in named.items()}))


class Actor:
    """An object whose methods are called by `remote`, one after the other."""

    def __init__(self, held: Any) -> None:
        self._held, self._own = held, ThreadPoolExecutor(1)

    def __getattr__(self, name: str) -> Remote:
        return Remote(getattr(self._held, name), self._own)


def remote(*given: Any, **options: Any) -> Any:
    """Make a function or a class remote, also as a decorator with options."""
    return Remote(given[0]) if given else Remote


def get(found: Any, **options: Any) -> Any:
    """Return what a future, or each of a list, has become."""
    if isinstance(found, list):
        return [get(item) for item in found]
    return found.result() if isinstance(found, Future) else found


def put(value: Any) -> Any:
    """Return the value itself, which `get` returns again."""
    return value


def wait(found: list[Any], num_returns: int = 1, timeout: float | None = None) -> tuple[list[Any], list[Any]]:
    """Return the futures that are done, and the others."""
    if sum(item.done() for item in found) < num_returns:
        wait_for(found, timeout, FIRST_COMPLETED if num_returns == 1 else "ALL_COMPLETED")
    return [item for item in found if item.done()], [item for item in found if not item.done()]


def init(*given: Any, **options: Any) -> None:
    """Do nothing: there is no cluster."""


def is_initialized() -> bool:
    """Return True."""
    return True
