# vextract:template base/__package__/run/event_loops.py - edit freely
"""Event loops of asyncio, where one runs already, in the cells of a notebook; and what is closed in spite of it."""

import asyncio
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from ..errors import ConfigError

C = TypeVar("C", bound="Closing")


@contextmanager
def without_running_loop() -> Iterator[None]:
    """Let what is called within it run event loops of its own, though this thread runs one.

    That one waits for the call to return in any case: a notebook's cell is a task of its loop. So hooks may call
    `asyncio.run` there, as anywhere.
    """
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)


class Closing:
    """Is closed at the end of a `with` statement.

    Attributes:
        _end: ends what it began, once; it is also called when nothing holds the object.
    """

    _end: "weakref.finalize[Any, Any]"

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the rollout engine and what else runs beside this process. Calling it again does nothing."""
        with without_running_loop():
            self._end()

    def require_open(self) -> None:
        """Raise a ConfigError if it has been closed."""
        if not self._end.alive:
            name = type(self).__name__
            raise ConfigError(f"this {name} has been closed", f"make another {name}: what it ran on has ended")
