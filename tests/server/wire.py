"""A server of raw bytes: it reads a request as HTTP has it, and what it sends back is up to the test."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Received:
    """A request, its header X-Request-Id as its name, and its body, if there is one; the first has the number 1."""

    number: int
    path: str
    name: str
    body: Any


Answer = Callable[[asyncio.StreamWriter, Received], Awaitable[None]]


def http(status: int, content: bytes, *headers: str, length: int | None = None) -> bytes:
    """An HTTP answer, which says that it has `length` bytes."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(content) if length is None else length}"]
    return "\r\n".join([*lines, "Connection: close", *headers, "", ""]).encode() + content


def as_json(value: Any) -> bytes:
    """A good HTTP answer; NaN and Infinity are written as Python does."""
    return http(200, json.dumps(value).encode())


class RawServer:
    """Listens on a free port until it is closed; `answer` writes what comes back, and then the connection is closed."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.received: list[Received] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result()
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        """Stop listening, and drop all connections."""

        async def drop() -> None:
            self._server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(drop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            _, path, _ = head[0].split(" ")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
            content = await reader.readexactly(int(headers.get("content-length", 0)))
            body = json.loads(content) if content else None
            received = Received(len(self.received) + 1, path, headers.get("x-request-id", ""), body)
            self.received.append(received)
            await self.answer(writer, received)
        except (OSError, asyncio.IncompleteReadError):  # the client has hung up
            pass
        finally:
            writer.close()
