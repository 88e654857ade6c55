# vextract:template - edit freely
"""JSON over HTTP to one server, many requests at a time."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import aiohttp

from ...training.timing import advance, expect
from ..rollout_interface import RolloutError

T = TypeVar("T")
# Seconds between attempts to reach a server that does not accept, or drops, a connection.
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0)
CONNECT_SECONDS = 10.0


class Connection:
    """Asks one server. The requests run on an event loop in a thread of its own, so any thread may ask.

    Args:
        url: of the server.
        concurrency: how many requests may be under way at a time.
        timeout: seconds until the answer to a request has to begin.
        check: called when a connection fails; raises if it knows that there is no use in another attempt.
    """

    def __init__(self, url: str, *, concurrency: int, timeout: float, check: Callable[[], None]) -> None:
        self.url = url.rstrip("/")
        self.concurrency = concurrency
        self.timeout = timeout
        self.check = check
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rollout-server", daemon=True)
        self._thread.start()
        # Connections that are kept for the next request, and those that are used once.
        self._kept, self._single = self._wait(self._open())

    def get(self, path: str, timeout: float | None = None) -> Any:
        """The answer to a GET request: parsed JSON, or text."""
        return self._wait(self._ask("GET", path, None, timeout, again=True))

    def post(self, path: str, body: Any = None, timeout: float | None = None) -> Any:
        """The answer to a POST request that changes the server: it is sent once, and again only if it never arrived."""
        return self._wait(self._ask("POST", path, body, timeout, again=False))

    def post_all(self, path: str, bodies: Sequence[Any]) -> list[Any]:
        """The answers to many POST requests that change nothing, in their order. When one fails, the rest are dropped.

        Raises:
            RolloutError: the server refused a request, did not answer in time, or cannot be reached.
        """
        return self._wait(self._ask_all(path, bodies))

    def answers(self, path: str) -> bool:
        """Whether GET of this path succeeds now."""
        try:
            self._wait(self._once("GET", path, None, 2.0, self._single))
        except (RolloutError, aiohttp.ClientError, asyncio.TimeoutError, OSError):
            return False
        return True

    def close(self) -> None:
        """Drop what is under way. May be called more than once."""
        if not self._loop.is_running():
            return
        with contextlib.suppress(Exception):
            self._wait(self._close_sessions())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C as well: the server stops writing when its client hangs up
            future.cancel()
            raise

    async def _ask_all(self, path: str, bodies: Sequence[Any]) -> list[Any]:
        expect(len(bodies), "requests")
        tasks = [asyncio.ensure_future(self._ask("POST", path, body, None, again=True)) for body in bodies]
        for task in tasks:
            task.add_done_callback(lambda _: advance())
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _ask(self, method: str, path: str, body: Any, timeout: float | None, *, again: bool) -> Any:
        """Ask until there is an answer; `again`: also after a connection broke once the request was sent."""
        session = self._kept if again else self._single
        worth_another = aiohttp.ClientError if again else aiohttp.ClientConnectorError
        pauses = iter(RETRY_SECONDS)
        while True:
            try:
                return await self._once(method, path, body, timeout, session)
            except asyncio.TimeoutError as error:
                self.check()
                raise RolloutError(
                    f"{self.url}{path} did not answer within {timeout or self.timeout:.0f} s",
                    "raise local.server.request_timeout",
                ) from error
            except (aiohttp.ClientError, OSError) as error:
                pause = next(pauses, None)
                await asyncio.sleep(pause or 0.0)  # a server that ends drops its connections first
                self.check()
                if pause is None or not isinstance(error, worth_another):
                    raise RolloutError(
                        f"{self.url}{path} cannot be reached: {error or type(error).__name__}",
                        "is the server up, and can this machine reach it? (local.server.url)",
                    ) from error

    async def _once(
        self, method: str, path: str, body: Any, timeout: float | None, session: aiohttp.ClientSession
    ) -> Any:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=timeout or self.timeout)
        async with session.request(method, self.url + path, json=body, timeout=limits) as response:
            text = await response.text()
        if response.status >= 400:
            self.check()
            raise RolloutError(
                f"{method} {self.url}{path}: {response.status} {_reason(text) or response.reason}",
                "the server's log says more",
            )
        with contextlib.suppress(json.JSONDecodeError):
            return json.loads(text)
        return text

    async def _open(self) -> tuple[aiohttp.ClientSession, aiohttp.ClientSession]:
        kept = aiohttp.TCPConnector(limit=self.concurrency)
        single = aiohttp.TCPConnector(limit=self.concurrency, force_close=True)
        return aiohttp.ClientSession(connector=kept), aiohttp.ClientSession(connector=single)

    async def _close_sessions(self) -> None:
        await self._kept.close()
        await self._single.close()


def _reason(text: str) -> str:
    """What an error's answer says, in short."""
    with contextlib.suppress(json.JSONDecodeError, AttributeError):
        found = json.loads(text)
        found = found.get("error", found.get("detail", found))
        text = str(found.get("message", found) if isinstance(found, dict) else found)
    return text[:1000]
