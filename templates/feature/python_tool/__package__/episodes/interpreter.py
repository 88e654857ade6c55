# vextract:template - edit freely
"""A Python interpreter in a process of its own, which is isolated as programs in rewards are."""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from ..rewards.sandboxing import channel, session
from ..rewards.sandboxing.candidate import OUT_OF_MEMORY
from ..rewards.sandboxing.isolation import Isolation
from ..rewards.sandboxing.limits import MB, ONE_THREAD, Limits, use_of

# Seconds between two looks at the memory that it uses, and that it may take to start, and to be ended.
LOOK, START, GRACE = 0.1, 20.0, 3.0


class Interpreter:
    """Runs pieces of code; its process is started with the first one, and again after it has ended.

    Args:
        limits: of the process.
        held: what isolates it.
        seconds: that a piece of code may take.
        output: that it may print, in bytes; the rest is left out.
    """

    def __init__(self, limits: Limits, held: Isolation, seconds: float, output: int) -> None:
        self.limits, self.held, self.seconds, self.output = limits, held, seconds, output
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, code: str) -> str:
        """Run code; return what it prints, and where it ends the interpreter, why."""
        with self.lock:
            if self.process is None:
                self._start()
            try:
                channel.send(self.sources, code.encode("utf-8", "replace"))
                printed, ended = self._watch(time.monotonic() + self.seconds)
            except channel.ChannelClosed:
                printed, ended = b"", "between two calls"
            text = printed[: self.output].decode("utf-8", "replace")
            if len(printed) > self.output:
                text += "\n(the rest is left out)"
            if ended:
                self._end()
                text += f"\n(The interpreter has ended: {ended}. The next call begins a new one.)"
            return text.strip("\n")

    def close(self) -> None:
        """End the process."""
        with self.lock:
            self._end()

    def _start(self) -> None:
        (read, self.sources), (self.printed, output), (self.report, report) = os.pipe(), os.pipe(), os.pipe()
        theirs = (read, output, report)
        flags = ["-I"] if self.limits.site_packages else ["-I", "-S"]
        start = session.START.format(str(Path(session.__file__).parent.parent))
        self.process = subprocess.Popen(
            [sys.executable, *flags, "-c", start, *map(str, theirs)],
            stdin=subprocess.PIPE,  # what ends with this process
            pass_fds=theirs,
            cwd="/",
            env={"LANG": "C.UTF-8", **ONE_THREAD},
            start_new_session=True,
        )
        for descriptor in theirs:
            os.close(descriptor)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.report, selectors.EVENT_READ)
        channel.send(self.sources, json.dumps({"isolation": asdict(self.held), "limits": asdict(self.limits)}).encode())
        said = os.read(self.report, 1 << 16) if self.selector.select(START) else b""
        found = re.match(rb'{"process": (\d+)}\n', said)  # before any code is run, which might say so as well
        self.child = int(found[1]) if found else 0
        if not self.child:
            self._end()
            raise RuntimeError(f"no interpreter can be started: {said.decode(errors='replace')}")
        self.selector.register(self.printed, selectors.EVENT_READ)

    def _watch(self, deadline: float) -> tuple[bytes, str]:
        """Return what is printed until the code has been run, and why the interpreter has ended, if it has."""
        printed, ended = bytearray(), None
        while ended is None:
            if time.monotonic() > deadline:
                ended = f"the code took longer than {self.seconds:g} s"
            elif use_of(self.child)[0] > self.limits.memory_mb * MB:
                ended = f"the code used more than {self.limits.memory_mb} MB"
            for key, _ in self.selector.select(LOOK if ended is None else 0):
                data = os.read(key.fd, 1 << 16)
                if key.fd == self.printed and data:
                    printed += data[: max(0, self.output + 1 - len(printed))]
                elif key.fd == self.printed:
                    self.selector.unregister(key.fd)
                else:
                    ended = ended or _reason(data)
        if not ended and self.selector.select(0):  # what was printed last: a pipe holds no more
            printed += os.read(self.printed, 1 << 16)[: max(0, self.output + 1 - len(printed))]
        return bytes(printed), ended

    def _end(self) -> None:
        """End the process, and all that it has started."""
        process, self.process = self.process, None
        if process is None:
            return
        if self.child:
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(self.child, signal.SIGKILL)
            end = time.monotonic() + GRACE
            while time.monotonic() < end and self.selector.select(GRACE) and self._is_more():
                pass
        assert process.stdin
        process.stdin.close()
        process.wait()
        self.selector.close()
        for descriptor in (self.sources, self.printed, self.report):
            os.close(descriptor)

    def _is_more(self) -> bool:
        """Read what is left; tell whether whoever keeps the process goes on."""
        return all(os.read(key.fd, 1 << 16) or key.fd != self.report for key, _ in self.selector.select(0))


def _reason(said: bytes) -> str:
    """Return why an interpreter has ended, "" if it has not, by what is said of it."""
    if said == b"\n":
        return ""
    found = re.search(rb'"code": (-?\d+)', said)
    code = int(found[1]) if found else 1
    return "it had no more memory" if code == OUT_OF_MEMORY else f"exit code {code}"
