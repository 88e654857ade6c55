# vextract:template base/__package__/run/run_lock.py - edit freely
"""One run at a time in a directory: two would write into the same metrics and replace each other's checkpoints."""

import contextlib
import gc
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
    try:
        import fcntl
    except ImportError:  # not on Windows
        return contextlib.nullcontext()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / ".lock").open("a+")
    except OSError as error:
        hint = "set trainer.default_local_dir to a directory that you can write to"
        raise ConfigError(f"cannot write to {directory}: {error.strerror}", hint) from error
    start = time.monotonic()
    waited = collected = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            other = _holder(file)
            if other == f" ({_this_process()})":
                if not collected:  # a trainer that nothing refers to any more may not have ended yet
                    collected = gc.collect() >= 0
                    continue
                file.close()
                raise ConfigError(
                    f"another run is going on in {directory}{other}: another trainer of this same process",
                    "close that one first (trainer.close(), or use it in a with statement), or name this one: "
                    f"trainer.experiment_name={shlex.quote(f'{directory.name}-2')}",
                ) from error
            if not waited and PATIENCE:
                print(f"waiting up to {PATIENCE:.0f} s for another run in {directory} to end{other}", file=sys.stderr)
                waited = True
            if time.monotonic() - start > PATIENCE:
                file.close()
                raise ConfigError(
                    f"another run is going on in {directory}{other}",
                    f"name this one: trainer.experiment_name={shlex.quote(f'{directory.name}-2')}; or wait",
                ) from error
            time.sleep(0.2)
            continue
        except OSError:  # a file system without locks
            pass
        with contextlib.suppress(OSError):  # a full disk does not keep a run from starting
            file.truncate(0)
            file.write(f"{_this_process()}\n")
            file.flush()
        return file


def _this_process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _holder(file: TextIO) -> str:
    """Return who holds the lock, as it has written there; empty if it has not."""
    file.seek(0)
    text = " ".join(file.read(200).split())
    return f" ({text})" if text else ""
