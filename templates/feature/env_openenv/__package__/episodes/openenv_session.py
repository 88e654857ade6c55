# vextract:template - edit freely
"""Sessions with servers of OpenEnv, by its protocol: the package `openenv` and vLLM need different versions of mcp."""

import asyncio
import json
import threading
from functools import cache
from typing import Any
from urllib.request import urlopen

from websockets.asyncio.client import connect

from ..errors import ConfigError


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
