# vextract:template base/__package__/run/interrupts.py - edit freely
"""Stop at the end of a step when the user, or the scheduler of the machine, asks for it; at once when asked again."""

import contextlib
import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

from ..output import say

NUMBERS = (signal.SIGINT, signal.SIGTERM)
# A signal within this many seconds of the first counts as the same one: a process group and torchrun both pass it on.
SAME = 0.5


class StopRequested(Exception):
    """Ends what waits for others, and would for long, because the run was asked to stop."""


_active: "list[StopSignal]" = []


def stop_requested() -> bool:
    """Tell whether the run was asked to stop, and is about to."""
    return any(signals.requested for signals in _active)


class StopSignal:
    """Within it, the first Ctrl-C or SIGTERM sets `requested`; a second one of either interrupts at once.

    A process that is forked within it, as by a reward that limits its time, ends on SIGTERM.
    """

    def __init__(self) -> None:
        self.requested = False
        self._process = os.getpid()
        self._first = 0.0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignal":
        for number in NUMBERS:
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:  # not the main thread, as in some notebooks: signals stay as they are
                return self
        _active.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self in _active:
            _active.remove(self)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if error is not None and os.environ.get("WORLD_SIZE", "1") != "1":
            # torchrun ends the other processes when one has failed. They end by themselves, with their errors printed.
            signal.signal(signal.SIGTERM, _ignore_once)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            if time.monotonic() - self._first < SAME:
                return
            raise KeyboardInterrupt
        self.requested = True
        self._first = time.monotonic()
        if os.environ.get("RANK", "0") != "0" or os.getpid() != self._process:
            return
        if number == signal.SIGTERM and os.environ.get("WORLD_SIZE", "1") != "1":
            return  # torchrun sends it, too, when another process has failed
        again = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
        with contextlib.suppress(RuntimeError):  # the signal may have come while something was being printed
            say(f"stopping after this step ({again} again: at once)")


def _ignore_once(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)


def _hold() -> None:
    """Have a SIGTERM wait while a process is forked: one that came before the child has let go would be lost there."""
    if _active:
        _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _release() -> None:
    mask, _held.mask = getattr(_held, "mask", None), None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _leave_in_child() -> None:
    if _active:
        _active.clear()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _release()


_held = threading.local()  # the signals that a thread let through before it forked
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_leave_in_child)
