# vextract:template base/__package__/rewards/main_thread.py
"""Scoring functions that need the main thread, where an event loop would call them in others.

Such limit their time by signals, which only a main thread gets, or by processes that they fork: beside other threads
that do the same these may wait for ever for what a thread held that is not there any more.
"""

import inspect
import queue
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .calls import raw_function

# math-verify limits the time of its parser by an alarm, and timeout_decorator that of what it decorates.
NAMES = (
    "SIGALRM",
    "setitimer",
    "signal.alarm",
    "multiprocessing.Process(",
    "mp.Process(",
    "os.fork(",
    "math_verify",
    "timeout_decorator",
)
# How long to wait for the next call, before looking whether all is done.
SECONDS = 0.01


class CallsHere(ThreadPoolExecutor):
    """Runs what an event loop has for other threads in the one that calls `run_until`, one after the other."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Keep a call for `run_until`."""
        future: Future[Any] = Future()
        self._calls.put((future, lambda: function(*args, **kwargs)))
        return future

    def run_until(self, pending: Iterable["Future[Any]"]) -> None:
        """Run calls in this thread until all that is pending is done, or one of it has failed."""
        waiting, look = list(pending), False
        while waiting:
            try:
                future, call = self._calls.get(timeout=SECONDS)
            except queue.Empty:
                look = True
            else:
                if future.set_running_or_notify_cancel():
                    try:
                        future.set_result(call())
                    except Exception as error:
                        look = True  # whoever has asked for it may go on without it
                        future.set_exception(error)
            if look:
                if any(one.done() and not one.cancelled() and one.exception() is not None for one in waiting):
                    return
                waiting = [one for one in waiting if not one.done()]


def needs_main_thread(function: Any) -> bool:
    """Tell whether a scoring function, or what was copied beside it among the hooks, uses signals or forks."""
    if sys.platform == "win32" or inspect.iscoroutinefunction(raw_function(function)):
        return False
    return any(name in text for text in _texts(function) for name in NAMES)


def _texts(function: Any) -> Iterator[str]:
    package = Path(__file__).resolve().parents[1]
    hooks = package / "custom"
    try:
        own = inspect.getsourcefile(raw_function(function))
    except TypeError:  # of no Python file
        return
    if own is None or Path(own).resolve().is_relative_to(package / "vendored"):
        return
    yield Path(own).read_text(encoding="utf-8", errors="replace")
    if Path(own).resolve().is_relative_to(hooks):
        for file in sorted(hooks.rglob("*.py")):
            yield file.read_text(encoding="utf-8", errors="replace")
