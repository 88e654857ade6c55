# vextract:template - edit freely
"""Sessions with servers of OpenEnv, by its protocol: the package `openenv` and vLLM need different versions of mcp."""

import asyncio
import contextlib
import json
import socket
import subprocess
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websockets.asyncio.client import connect

from ..errors import ConfigError

STARTUP = 120.0  # seconds until a server of ours is up
# Runs a command; ends it and all that it has started as soon as it ends itself, or whoever holds the input of this.
WATCHED = '(eval "$0"; kill -9 0) & read -r _; kill -9 0'


@cache
class Server:
    """A server that each process starts when it needs it, and again where it has died; it ends with the process.

    Args:
        command: of the shell; {port} in it becomes a free one, on which the server has to listen.
    """

    def __init__(self, command: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.command, self.url = command.replace("{port}", str(port)), f"http://127.0.0.1:{port}"
        self.log = Path(tempfile.gettempdir()) / f"openenv-{port}.log"
        self.process: Any = None
        self._is_up, self._lock = False, threading.Lock()

    def ready(self) -> str:
        """Return the URL at which it answers.

        Raises:
            ConfigError: it does not begin to.
        """
        with self._lock:
            if self.process is None or self.process.poll() is not None:
                watched, self._is_up = ["sh", "-c", WATCHED, self.command], False
                with self.log.open("w") as log:
                    given: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": log, "stderr": log}
                    self.process = subprocess.Popen(watched, **given, start_new_session=True)
            deadline = time.monotonic() + STARTUP
            while not self._is_up:
                with contextlib.suppress(OSError), urlopen(f"{self.url}/health", timeout=1):
                    self._is_up = True
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise ConfigError(f"no server of OpenEnv answers at {self.url}: {self.command}", f"see {self.log}")
                time.sleep(0.05)
            return self.url


@cache
def fields_of_action(url: str) -> tuple[str, ...]:
    """Return the fields of an action on a server: those that it must have, or if there are none, those it may have.

    Raises:
        ConfigError: no such server answers.
    """
    try:
        with urlopen(f"{url}/schema", timeout=10) as found:
            action = json.load(found)["action"]
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"no server of OpenEnv answers at {url}: {error}", "start it, or name another one") from error
    return tuple(action.get("required") or sorted(set(action["properties"]) - {"metadata", "type"}))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that all sessions live in, whichever one waits for them."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, daemon=True, name="openenv").start()
    return made


class Session:
    """An environment of its own on a server, from the first question on.

    Args:
        url: of the server, http:// or https://.
        timeout: seconds that an answer may take.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self.address, self.timeout = f"ws{url.removeprefix('http')}/ws", timeout
        self.socket: Any = None

    async def ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """Send a message, and return the data of the answer; that of an action which is none has a `code`.

        Raises:
            RuntimeError: the server reports an error.
            TimeoutError: it does not answer in time.
            OSError, websockets.WebSocketException: it is gone.
        """
        answer = await self._in_loop(self._ask({"type": kind, "data": data}))
        found: dict[str, Any] = answer["data"]
        if answer["type"] == "error" and found["code"] != "VALIDATION_ERROR":
            raise RuntimeError(f"the server says: {found['message']} ({found['code']})")
        return found

    async def close(self) -> None:
        """End the session."""
        if self.socket is not None:
            await self._in_loop(self.socket.close())

    async def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        if self.socket is None:
            self.socket = await connect(self.address, open_timeout=self.timeout, close_timeout=1, max_size=None)
        await self.socket.send(json.dumps(message))
        try:
            answer: dict[str, Any] = json.loads(await asyncio.wait_for(self.socket.recv(), self.timeout))
        except asyncio.TimeoutError as error:
            raise TimeoutError(f"the server gave no answer in {self.timeout:g} s") from error
        return answer

    async def _in_loop(self, work: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _loop()))
