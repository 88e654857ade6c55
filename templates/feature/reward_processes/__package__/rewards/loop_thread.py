# vextract:template
"""An event loop in a thread of its own, for coroutines that go on while this thread does something else."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
# How long to wait for a coroutine that blocks instead of awaiting. The thread does not keep the program from ending.
CLOSING_SECONDS = 5.0


class LoopThread:
    """Runs coroutines, from any thread, until it is closed.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin a coroutine. What it says to end the program is an error of its own: it would end the loop alone."""
        return asyncio.run_coroutine_threadsafe(_not_ending(work), self._loop)

    def call_by(self, executor: ThreadPoolExecutor) -> None:
        """Have an executor run what coroutines hand to other threads."""
        self._loop.set_default_executor(executor)

    def close(self) -> None:
        """Cancel what is under way, and end the thread. May be called more than once."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(CLOSING_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def _end(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_soon(self._loop.stop)  # once the tasks have heard of it


async def _not_ending(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except SystemExit as error:
        raise RuntimeError(f"SystemExit: {error}").with_traceback(error.__traceback__) from error
