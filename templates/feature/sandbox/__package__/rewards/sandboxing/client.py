# vextract:template
"""The trainer's side of a server of supervisors."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import bubblewrap, channel
from .limits import ONE_THREAD

START = "import sys; sys.path.insert(0, {!r}); from sandboxing import server; sys.path.pop(0); server.main()"


class NoAnswer(RuntimeError):
    """A supervisor has failed, or has not ended in time."""


class Server:
    """A server of supervisors, which is started with the first request, and again if it is gone.

    Args:
        site_packages: whether programs may import what is installed.
    """

    def __init__(self, site_packages: bool) -> None:
        self.flags = ["-I"] if site_packages else ["-I", "-S"]
        self._lock = threading.Lock()
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def ask(self, messages: Sequence[Mapping[str, Any]], seconds: float) -> Any:
        """Have a supervisor do something.

        Args:
            messages: what it reads.
            seconds: how long it may take.

        Raises:
            NoAnswer: it failed, or took longer; then the server is ended, with everything that it has started.
        """
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                control = self._started()
                try:
                    socket.send_fds(control, [b"."], [theirs.fileno()])
                except OSError as error:
                    self.close()
                    raise NoAnswer(f"the sandbox's server is gone: {error}") from error
            ours.settimeout(seconds)
            try:
                for message in messages:
                    data = json.dumps(message).encode("ascii")
                    ours.sendall(channel.HEADER.pack(len(data)) + data)
                said = b"".join(iter(lambda: ours.recv(1 << 16), b""))
            except TimeoutError as error:
                self.close()
                raise NoAnswer(f"a program's supervisor did not end within {seconds:g} s") from error
            except OSError as error:
                raise NoAnswer(f"a program's supervisor is gone: {error}") from error
        if not said:
            raise NoAnswer("a program's supervisor could not be started, or was killed")
        answer = json.loads(said)
        if "failed" in answer:
            raise NoAnswer(f"a program's supervisor failed:\n{answer['failed']}")
        return answer

    def close(self) -> None:
        """End the server, and with it its supervisors."""
        with self._lock:
            process, self._process = self._process, None
            control, self._control = self._control, None
            if control is not None:
                control.close()
            if process is not None and self._owner == os.getpid():
                process.kill()
                process.wait()

    def _started(self) -> socket.socket:
        with self._lock:
            is_ours = self._owner == os.getpid()  # not a parent's, which forked this process
            if self._control is None or self._process is None or not is_ours or self._process.poll() is not None:
                ours, theirs = socket.socketpair()
                with theirs:
                    code = Path(__file__).parent
                    before = bubblewrap.prefix(str(code))
                    inside = 2 * os.getpid() + len(self.flags) % 2 if before else 0
                    self._process = subprocess.Popen(
                        [*before, sys.executable, *self.flags, "-c", START.format(str(code.parent))],
                        stdin=theirs.fileno(),
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        cwd="/",
                        env={"LANG": "C.UTF-8", bubblewrap.INSIDE: str(inside), **ONE_THREAD},
                        start_new_session=True,
                    )
                self._control, self._owner = ours, os.getpid()
            return self._control
