# vextract:template
"""A time limit for a call of a plain function: one that hangs ends."""

import signal
import threading
from collections.abc import Callable
from typing import Any

# A function that catches the interruption is interrupted again after so many seconds.
REPEAT = 1.0


class TookTooLong(BaseException):
    """A call took longer than it may. It does not derive from Exception: an `except Exception` does not catch it."""


def call_within(seconds: float | None, call: Callable[[], Any]) -> Any:
    """Call a function, for at most so many seconds.

    In the main thread an alarm interrupts the function, wherever in its Python code it is. (Code in C that does not
    return cannot be interrupted.) In any other thread the function runs in a thread of its own, which is left behind.

    Args:
        seconds: the limit; None: no limit.
        call: the function; it takes no arguments.

    Raises:
        TookTooLong: it did.
    """
    if seconds is None:
        return call()
    in_main = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    return _with_alarm(seconds, call) if in_main else _in_thread(seconds, call)


def _with_alarm(seconds: float, call: Callable[[], Any]) -> Any:
    armed = True

    def ring(number: int, frame: Any) -> None:
        if armed:
            raise TookTooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT)
    try:
        try:
            return call()
        finally:
            armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _in_thread(seconds: float, call: Callable[[], Any]) -> Any:
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="limited")  # a daemon does not keep the program from ending
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TookTooLong
    return results[0]
