# vextract:template base/__package__/run/process.py - edit freely
"""What a run sets up in its process: quiet libraries, event loops of its own, an end, signals, a lock."""

import contextlib
import gc
import logging
import os
import shlex
import signal
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from ..errors import ConfigError
from ..output import say

C = TypeVar("C", bound="Closing")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A signal within this many seconds of the last counts as the same one: a process group and torchrun both pass it on.
SAME = 0.5
PATIENCE = 10.0  # seconds after which the processes that a killed run left behind have ended


def quiet() -> None:
    """Turn off the warnings that a run always causes, and that ask nothing of anybody."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore", message="In CPU autocast")  # float32 is meant: nothing is to be cast
    warnings.filterwarnings("ignore", message="'set_vital' is deprecated")
    warnings.filterwarnings("ignore", message="IProgress not found")  # transformers' bars, which are turned off
    logging.getLogger("torch.fx._symbolic_trace").setLevel(logging.ERROR)  # nested tensors ask in an old way


@contextmanager
def without_running_loop() -> Iterator[None]:
    """Let what is called within it run event loops of its own, though this thread runs one, as a notebook does."""
    import asyncio

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

    def __exit__(self, *raised: Any) -> None:
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


class StopSignal:
    """Within it, the first Ctrl-C or SIGTERM sets `requested`; a second interrupts at once.

    A third ends the process, in case a hook catches the interruption and goes on.
    """

    active: "list[StopSignal]" = []

    def __init__(self) -> None:
        self.requested = False
        self._interrupted = False
        self._last = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignal":
        with contextlib.suppress(ValueError):  # not the main thread, as in some notebooks: signals stay as they are
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
            self.active.append(self)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self in self.active:
            self.active.remove(self)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if error is not None and os.environ.get("WORLD_SIZE", "1") != "1":
            # torchrun ends the other processes when one has failed. They end by themselves, with their errors printed.
            signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL))

    def _note(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() - self._last < SAME:
            return
        self._last = time.monotonic()
        if self._interrupted:
            os._exit(128 + number)
        if self.requested:
            self._interrupted = True
            raise KeyboardInterrupt
        self.requested = True
        several = os.environ.get("WORLD_SIZE", "1") != "1"
        if os.environ.get("RANK", "0") != "0" or (several and number == signal.SIGTERM):
            return  # torchrun sends SIGTERM, too, when another process has failed
        again = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
        with contextlib.suppress(RuntimeError):  # the signal may have come while something was being printed
            say(f"stopping after this step ({again} again: at once)")


def _leave_in_child() -> None:
    """Have a process that is forked in a run, as by a reward that limits its time, end on SIGTERM."""
    if StopSignal.active:
        StopSignal.active.clear()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)


def lock_run_directory(directory: Path, ranks: Any) -> AbstractContextManager[Any]:
    """Let no other run begin in `directory` until what is returned is closed, or this process has ended.

    Two would write into the same metrics and replace each other's checkpoints.

    Raises:
        ConfigError: another run is going on there, or the directory cannot be made.
    """
    held: list[AbstractContextManager[Any]] = []
    ranks.on_driver(lambda: held.append(_locked(directory)))
    return held[0] if held else contextlib.nullcontext()


def _locked(directory: Path) -> AbstractContextManager[Any]:
    from filelock import FileLock, Timeout

    gc.collect()  # a trainer that nothing refers to any more may not have ended yet
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        text = f"trainer.default_local_dir: {directory} cannot be made: {error.strerror}"
        raise ConfigError(text, "name a directory that you may write to") from error
    try:
        return FileLock(directory / ".lock", thread_local=False).acquire(timeout=PATIENCE)
    except Timeout as error:
        anew = f"name this one: trainer.experiment_name={shlex.quote(f'{directory.name}-2')}"
        text = f"another run is going on in {directory}, or a trainer of this process holds it"
        raise ConfigError(text, f"close that one first, or {anew}") from error
    except OSError:  # a file system without locks
        return contextlib.nullcontext()
