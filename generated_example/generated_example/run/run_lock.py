# vextract:template base/__package__/run/run_lock.py - edit freely
"""One run at a time in a directory: two would write into the same metrics and replace each other's checkpoints."""

import contextlib
import gc
import itertools
import os
import shlex
import socket
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TextIO

from ..errors import ConfigError
from .distributed import Ranks

PATIENCE = 10.0  # seconds after which the processes that a killed run left behind have ended


def lock_run_directory(directory: Path, ranks: Ranks) -> AbstractContextManager[Any]:
    """Let no other run begin in `directory` until what is returned is closed, or this process has ended.

    Raises:
        ConfigError: another run is going on there, or it cannot be written to.
    """
    held: list[AbstractContextManager[Any]] = []
    ranks.on_driver(lambda: held.append(_locked(directory)))
    return held[0] if held else contextlib.nullcontext()


def _locked(directory: Path) -> AbstractContextManager[Any]:
    if sys.platform == "win32":
        return contextlib.nullcontext()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / ".lock").open("a+")
    except OSError as error:
        hint = "set trainer.default_local_dir to a directory that you can write to"
        raise ConfigError(f"cannot write to {directory}: {error.strerror}", hint) from error
    try:
        _take(file, directory)
    except ConfigError:
        file.close()
        raise
    with contextlib.suppress(OSError):  # a full disk does not keep a run from starting
        file.truncate(0)
        file.write(f"{_this_process()}\n")
        file.flush()
    return file


def _take(file: TextIO, directory: Path) -> None:
    """Take the lock, once the processes that a killed run has left behind have ended."""
    import fcntl

    start, another = time.monotonic(), f"trainer.experiment_name={shlex.quote(f'{directory.name}-2')}"
    for attempt in itertools.count():
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        except OSError:  # a file system without locks
            return None
        other = _holder(file)
        text = f"another run is going on in {directory}{other}"
        if other != f" ({_this_process()})":
            if time.monotonic() - start > PATIENCE:
                raise ConfigError(text, f"name this one: {another}; or wait")
            if attempt == 0:
                print(f"waiting up to {PATIENCE:.0f} s for another run in {directory} to end{other}", file=sys.stderr)
            time.sleep(0.2)
        elif attempt == 0:
            gc.collect()  # a trainer that nothing refers to any more may not have ended yet
        else:
            hint = "close that one first (trainer.close(), or use it in a with statement), or name this one: "
            raise ConfigError(f"{text}: another trainer of this same process", hint + another)
    return None


def _this_process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _holder(file: TextIO) -> str:
    """Return who holds the lock, as it has written there; empty if it has not."""
    file.seek(0)
    text = " ".join(file.read(200).split())
    return f" ({text})" if text else ""
