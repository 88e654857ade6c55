# vextract:template - edit freely
"""Connections to MCP servers, by the official client."""

import asyncio
import contextlib
import functools
import json
import os
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

# Seconds for a server to start, and to answer where a config does not say.
START, TIMEOUT = 60.0, 30.0


class Connection:
    """A connection to a server, made with the first call, and again after it has broken.

    Args:
        settings: of the server, from a file of `mcpServers`: `command`, `args`, `env`, `cwd` of a program; or `url`,
            `headers`, `auth_token`, and `transport: sse` for servers of that kind (a URL that ends in /sse is one).
        rate_limit: the most calls in a second.
    """

    def __init__(self, settings: dict[str, Any], rate_limit: float | None) -> None:
        self.settings, self.rate_limit = settings, rate_limit
        self.client: Any = None
        self.connecting, self.next = asyncio.Lock(), 0.0
        self.closed = asyncio.Event()

    async def list_tools(self) -> list[Any]:
        """List the tools that the server has, of all pages."""
        client = await self._connected()
        tools, cursor = [], None
        while True:
            page = await asyncio.wait_for(client.list_tools(cursor=cursor), START)
            tools += page.tools
            cursor = page.next_cursor
            if not cursor:
                return tools

    async def call(self, name: str, arguments: dict[str, Any], timeout: float) -> Any:
        """Call a tool; return the content of its result, a list of parts.

        Raises:
            RuntimeError: the tool says that it has failed.
            TimeoutError: it has not answered in time.
            Exception: of any other class: there is no connection.
        """
        if self.rate_limit:
            now = asyncio.get_running_loop().time()
            self.next = max(self.next, now - 1) + 1 / self.rate_limit  # after a pause, those of a second at once
            await asyncio.sleep(self.next - now)
        client = await self._connected()
        try:
            result = await asyncio.wait_for(client.call_tool(name, arguments), timeout)
        except asyncio.TimeoutError:
            raise TimeoutError(f"the MCP server took longer than {timeout:g} s") from None
        except Exception:
            self.closed.set()
            raise
        if result.is_error:
            raise RuntimeError(" ".join(part.text for part in result.content if part.type == "text"))
        return result.content

    async def _connected(self) -> Any:
        async with self.connecting:
            if self.client is None or self.closed.is_set():
                self.closed = asyncio.Event()
                ready = asyncio.get_running_loop().create_future()
                self.holder = asyncio.create_task(self._hold(ready, self.closed))
                try:
                    self.client = await asyncio.wait_for(ready, START)
                except asyncio.TimeoutError:
                    self.holder.cancel()
                    raise TimeoutError(f"it has not answered within {START:g} s") from None
            return self.client

    async def _hold(self, ready: "asyncio.Future[Any]", closed: asyncio.Event) -> None:
        """Be the task in which the client lives: it has to be closed where it was opened."""
        try:
            async with contextlib.AsyncExitStack() as stack:
                client = await stack.enter_async_context(Client(await self._server(stack)))
                ready.set_result(client)
                await closed.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)

    async def _server(self, stack: contextlib.AsyncExitStack) -> Any:
        given = self.settings
        if "command" in given:
            parameters = {name: given[name] for name in ("args", "env", "cwd") if name in given}
            parameters["env"] = {**os.environ, **parameters.get("env", {})}
            return StdioServerParameters(command=given["command"], **parameters)
        headers = dict(given.get("headers", {}))
        if "auth_token" in given:
            headers["Authorization"] = f"Bearer {given['auth_token']}"
        if given.get("transport") == "sse" or urlsplit(given["url"]).path.rstrip("/").endswith("/sse"):
            return sse_client(given["url"], headers=headers)
        client = await stack.enter_async_context(create_mcp_http_client(headers=headers))
        return streamable_http_client(given["url"], http_client=client)


def servers_in(path: str) -> dict[str, dict[str, Any]]:
    """Return the settings of servers, by name, from a file in the form that MCP clients share."""
    servers: dict[str, dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))["mcpServers"]
    return servers


@functools.cache
def connection_to(settings: str, rate_limit: float | None, process: int) -> Connection:
    """Return this process's connection to a server, by its settings as JSON."""
    return Connection(json.loads(settings), rate_limit)


@functools.cache
def loop_of(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop in which all connections of this process live, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="mcp", daemon=True).start()
    return loop


def on_loop(coroutine: Any) -> Any:
    """Run a coroutine where connections live; return its future."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop_of(os.getpid()))
