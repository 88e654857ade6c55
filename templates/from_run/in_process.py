# vextract:hook  yours: written once, never touched by an upgrade
"""The names of Ray that the run's own files use, without Ray: a call is done at once, where it is made.

A time limit of `get` limits nothing here.
"""

import functools
import logging
from typing import Any

logger = logging.getLogger("ray")


class RayError(Exception):
    """What Ray would raise; nothing here does."""


class GetTimeoutError(RayError): ...


class RayActorError(RayError): ...


class RayTaskError(RayError): ...


class TaskCancelledError(RayError): ...


class WorkerCrashedError(RayError): ...


class exceptions:
    """The module of that name."""

    GetTimeoutError = GetTimeoutError
    RayActorError = RayActorError
    RayError = RayError
    RayTaskError = RayTaskError
    TaskCancelledError = TaskCancelledError
    WorkerCrashedError = WorkerCrashedError


class _Actor:
    """An object whose methods have `remote`."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __getattr__(self, name: str) -> Any:
        return _with_remote(getattr(self._held, name))


def _with_remote(function: Any) -> Any:
    @functools.wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    called.remote = called  # type: ignore[attr-defined]
    called.options = lambda **options: called  # type: ignore[attr-defined]
    return called


def remote(*given: Any, **options: Any) -> Any:
    """Return a function that can be called with and without `remote`, or a class whose `remote` makes an actor."""
    if not given:
        return remote
    if not isinstance(given[0], type):
        return _with_remote(given[0])
    made: Any = given[0]
    made.remote = staticmethod(lambda *taken, **named: _Actor(made(*taken, **named)))
    made.options = staticmethod(lambda **options: made)
    return made


def get(found: Any, timeout: Any = None) -> Any:
    """Return what was called, which is done already."""
    return found


def put(value: Any) -> Any:
    """Return a value."""
    return value


def wait(found: Any, num_returns: int = 1, timeout: Any = None, fetch_local: bool = True) -> Any:
    """Return what is done, which is all, and what is not."""
    return list(found), []


def init(*given: Any, **options: Any) -> None:
    """Start nothing."""


def is_initialized() -> bool:
    """Return True: nothing has to be started."""
    return True


def cancel(found: Any, force: bool = False, recursive: bool = True) -> None:
    """End nothing: what was called is done."""


def kill(actor: Any, no_restart: bool = True) -> None:
    """End nothing."""
