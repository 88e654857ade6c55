# vextract:template - edit freely
"""The server as a process of its own: started, awaited, watched and stopped."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...errors import ConfigError
from ..rollout_interface import RolloutError

PROGRESS_SECONDS = 15.0
STOP_SECONDS = 25.0  # more than the keeper gives the server
LEFTOVER_SECONDS = 3.0
ATTEMPTS = 3
TAIL_LINES = 15
ADDRESS_IN_USE = "address already in use"
# What torchrun tells its processes about each other; the server is none of them.
TORCHRUN_VARIABLES = (
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "WORLD_SIZE",
)


class ServerProcess:
    """A server that this process has started. It ends when this process does, however that happens.

    Args:
        name: of the server, for messages.
        command: makes the command line for a port.
        environment: variables to set for it, besides this process's own.
        host: the address it listens on.
        port: the port; None: a free one.
        log: the file that its output is appended to.
        scratch: a directory that is removed when the server has ended.

    Raises:
        ConfigError: the port is taken, or there is no such program.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[int], Sequence[str]],
        environment: Mapping[str, str],
        *,
        host: str,
        port: int | None,
        log: Path,
        scratch: Path,
    ) -> None:
        self.name = name
        self.command = command
        self.environment = environment
        self.host = host
        self.chosen_port = port
        self.log = log
        self.scratch = scratch
        if port is not None and _taken(host, port):
            raise ConfigError(
                f"local.server.port is {port}, which another process on this machine listens on",
                "choose another, leave it out for a free one, or give that server as local.server.url",
            )
        log.parent.mkdir(parents=True, exist_ok=True)
        self._start()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://{self.host}:{self.port}"

    def wait(self, healthy: Callable[[str], bool], timeout: float) -> None:
        """Wait until the server answers.

        Args:
            healthy: asks the server at a URL.
            timeout: seconds.

        Raises:
            RolloutError: it has ended, or does not answer in time; the end of its log is part of the text.
        """
        print(f"starting {self.name} (log: {self.log})", flush=True)
        started = reported = time.monotonic()
        for attempt in range(1, ATTEMPTS + 1):
            while self.running():
                if healthy(self.url):
                    print(f"{self.name} is ready after {time.monotonic() - started:.0f} s: {self.url}", flush=True)
                    return
                now = time.monotonic()
                if now - started > timeout:
                    self.stop()
                    raise self._error(
                        f"{self.name} did not answer within {timeout:.0f} s",
                        "raise local.server.startup_timeout, or see what its log says",
                    )
                if now - reported > PROGRESS_SECONDS:
                    reported = now
                    print(f"waiting for {self.name}, {now - started:.0f} s: {self._last_line()}", flush=True)
                time.sleep(0.2)
            # A free port may be taken by another process before the server gets to it.
            if attempt == ATTEMPTS or self.chosen_port is not None or ADDRESS_IN_USE not in self._tail().lower():
                break
            self._start()
        raise self._error(
            f"{self.name} ended while it started",
            f"{self.log} has its command line and all that it said; local.server.python names the Python that has it",
        )

    def running(self) -> bool:
        """Tell whether it has not ended. Its directory goes first, and then what it has left running."""
        return self._keeper.poll() is None and self.scratch.is_dir()

    def check(self) -> None:
        """Raise RolloutError, with the end of the log, if the server has ended."""
        if not self.running():
            raise self._error(f"{self.name} has ended", "the log says why; start the run again to go on")

    def stop(self) -> None:
        """End it and all that it started. May be called more than once."""
        if self._keeper.poll() is None:
            self._keeper.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._keeper.wait(STOP_SECONDS)
        deadline = time.monotonic() + LEFTOVER_SECONDS
        while self._group_lives() and time.monotonic() < deadline:  # the keeper was killed, the server is still ending
            time.sleep(0.1)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._keeper.pid, signal.SIGKILL)
        self._keeper.wait()

    def _group_lives(self) -> bool:
        try:
            os.killpg(self._keeper.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _start(self) -> None:
        self.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)  # an attempt that failed has removed it
        self.port = self.chosen_port or _free_port(self.host)
        command = list(self.command(self.port))
        environment = {key: value for key, value in os.environ.items() if not _is_torchruns(key)}
        keeper = [sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")), str(os.getpid())]
        with open(self.log, "ab") as log:
            self._log_start = log.tell()
            log.write(f"$ {' '.join(command)}\n".encode())
            log.flush()
            self._keeper = subprocess.Popen(
                [*keeper, str(self.scratch), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**environment, **self.environment},
                start_new_session=True,
            )

    def _tail(self) -> str:
        with open(self.log, "rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    def _last_line(self) -> str:
        return self._tail().rpartition("\n")[2][:160]

    def _error(self, message: str, hint: str) -> RolloutError:
        return RolloutError(f"{message}. The end of {self.log}:\n{self._tail()}", hint)


def _is_torchruns(variable: str) -> bool:
    return variable in TORCHRUN_VARIABLES or variable.startswith("TORCHELASTIC_")


def _taken(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port
