# vextract:template - edit freely
"""JSON over HTTP to one server, many requests at a time, none of which is waited for without end."""

import asyncio
import concurrent.futures
import contextlib
import email.utils
import json
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import aiohttp

from ...run.process import StopRequested, StopSignal
from ..rollout_interface import RolloutError
from .answers import BadAnswer, parse

T = TypeVar("T")
# Seconds between attempts where what has failed may pass. A server that says how long to wait is heeded.
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
CONNECT_SECONDS = 10.0
POLL_SECONDS = 0.2
# How long what changes the server may go on once the run was asked to stop. Responses are given up at once.
STOP_GRACE = 10.0
MEGABYTE = 2**20
REASON_BYTES = 2**16
# Statuses by which a server says that the same request may succeed later.
PASSING = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Ask(Generic[T]):
    """A request that changes nothing on the server.

    Attributes:
        body: makes its JSON from the id that this attempt has; it goes as the header X-Request-Id too.
        read: makes of the parsed answer, and of that id, what is wanted; raises BadAnswer if the answer is wrong.
        most_bytes: that the answer may have.
        url: of the server that it is for, where several are alike; None: the connection's.
    """

    body: Callable[[str], Any]
    read: Callable[[Any, str], T]
    most_bytes: int = MEGABYTE
    url: str | None = None


class _Failed(Exception):
    """An attempt has failed, and another may succeed.

    Attributes:
        taken: whether the server may have done what it was asked.
        wait: seconds that it asks to wait.
    """

    def __init__(self, message: str, hint: str, *, taken: bool = True, wait: float = 0.0) -> None:
        super().__init__(message)
        self.hint = hint
        self.taken = taken
        self.wait = wait


class Connection:
    """Asks one server. The requests run on an event loop in a thread of its own, so any thread may ask.

    Every method raises StopRequested when the run is asked to stop meanwhile.

    Args:
        url: of the server.
        concurrency: how many requests may be under way at a time.
        timeout: seconds until the whole answer to a request has to be there, all attempts together.
        check: called before a request, while its answer is waited for, and when a connection fails; raises if it knows
            that the server has ended. One that is ending may answer for a while, with its connections still open.
        section: of the settings that have url and request_timeout, for hints.
    """

    def __init__(
        self,
        url: str,
        *,
        concurrency: int,
        timeout: float,
        check: Callable[[], None],
        section: str = "local.server",
    ) -> None:
        self.url = url.rstrip("/")
        self.section = section
        self.concurrency = concurrency
        self.timeout = timeout
        self.check = check
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rollout-server", daemon=True)
        self._thread.start()
        # Connections that are kept for the next request, and those that are used once.
        opened = asyncio.run_coroutine_threadsafe(self._open(), self._loop)
        self._kept, self._single, self._slots = opened.result()

    def get(self, path: str, read: Callable[[Any], T], timeout: float | None = None) -> T:
        """Return what `read` makes of the JSON that answers a GET request.

        Raises:
            RolloutError: as `post_all`.
        """
        ask = Ask(lambda _: None, lambda answer, _: read(answer))
        return self._wait(self._ask("GET", path, ask, timeout or self.timeout, again=True), 0.0)

    def post(self, path: str, body: Any, read: Callable[[Any], T]) -> T:
        """Do so for a POST request that changes the server: it is sent once, and again only if it never arrived."""
        ask = Ask(lambda _: body, lambda answer, _: read(answer))
        return self._wait(self._ask("POST", path, ask, self.timeout, again=False), STOP_GRACE)

    def tell(self, path: str, body: Any = None) -> None:
        """Do so where the answer matters only in that it is not an error."""
        ask: Ask[None] = Ask(lambda _: body, lambda answer, _: None)
        self._wait(self._ask("POST", path, ask, self.timeout, again=False, parsed=False), STOP_GRACE)

    def ask(self, path: str, ask: Ask[T], timeout: float | None = None) -> T:
        """Return what is read from the answer to one POST request that changes nothing."""
        return self._wait(self._ask("POST", path, ask, timeout or self.timeout, again=True), 0.0)

    def post_all(self, path: str, asks: Sequence[Ask[T]], answered: Callable[[int, T], None] | None = None) -> list[T]:
        """Read the answers to many POST requests, in their order. When one fails, the rest are dropped.

        `answered` is told the place of a request and its answer as soon as it is there, in the thread of the requests.

        Raises:
            RolloutError: the server refused a request, did not answer in time, cannot be reached, or answered what is
                no answer to the request.
        """
        return self._wait(self._ask_all(path, asks, answered), 0.0)

    async def answer(self, path: str, ask: Ask[T]) -> T:
        """Do what `ask` does, from a coroutine on another event loop; whoever runs that calls `go_on` meanwhile."""
        work = self._ask("POST", path, ask, self.timeout, again=True)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def go_on(self) -> None:
        """Raise what there is to know while answers are waited for."""
        if self._closed:  # by the thread of the training loop, while another one waits
            raise StopRequested(f"{self.url} is no longer asked")
        self.check()

    def answers(self, path: str) -> bool:
        """Tell whether GET of this path succeeds now."""
        try:
            self._wait(self._once("GET", self.url + path, None, "", 2.0, MEGABYTE, self._single), STOP_GRACE)
        except (RolloutError, _Failed, asyncio.TimeoutError):
            return False
        return True

    def close(self) -> None:
        """Drop what is under way. May be called more than once."""
        self._closed = True
        if not self._loop.is_running():
            return
        closing = asyncio.run_coroutine_threadsafe(self._close_sessions(), self._loop)
        with contextlib.suppress(Exception):
            closing.result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _wait(self, work: Coroutine[Any, Any, T], grace: float) -> T:
        try:
            self.check()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        asked: float | None = None
        try:
            while not concurrent.futures.wait([future], POLL_SECONDS).done:
                self.go_on()
                if not stop_requested():
                    continue
                asked = time.monotonic() if asked is None else asked
                if time.monotonic() - asked >= grace:
                    raise StopRequested(f"stopped while {self.url} was asked")
            return future.result()
        except BaseException:  # Ctrl-C as well: the server stops writing when its client hangs up
            future.cancel()
            raise

    async def _ask_all(self, path: str, asks: Sequence[Ask[T]], answered: Callable[[int, T], None] | None) -> list[T]:
        async def one(place: int, ask: Ask[T]) -> T:
            answer = await self._ask("POST", path, ask, self.timeout, again=True)
            if answered is not None:
                answered(place, answer)
            return answer

        tasks = [asyncio.ensure_future(one(place, ask)) for place, ask in enumerate(asks)]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _ask(self, method: str, path: str, ask: Ask[T], timeout: float, *, again: bool, parsed: bool = True) -> T:
        """Ask until there is an answer; `again`: also where the server may have done what it was asked."""
        session, url = self._kept if again else self._single, (ask.url or self.url) + path
        async with self._slots:  # the time that a request waits for its turn is not the server's
            deadline = self._loop.time() + timeout
            pauses = iter(RETRY_SECONDS)
            while True:
                name = uuid.uuid4().hex
                left = deadline - self._loop.time()
                try:
                    content = await self._once(method, url, ask.body(name), name, left, ask.most_bytes, session)
                    return self._read(url, ask, content, name, parsed)
                except asyncio.TimeoutError as error:
                    self.check()
                    raise RolloutError(
                        f"{url} did not answer within {timeout:.0f} s", f"raise {self.section}.request_timeout"
                    ) from error
                except _Failed as error:
                    pause = next(pauses, None)
                    wait = max(pause or 0.0, error.wait)
                    hopeless = pause is None or (error.taken and not again) or wait >= deadline - self._loop.time()
                    # A server that ends drops its connections first.
                    await self._pause(RETRY_SECONDS[0] if hopeless else wait)
                    if hopeless:
                        raise RolloutError(str(error), error.hint) from error

    def _read(self, url: str, ask: Ask[T], content: bytes, name: str, parsed: bool) -> T:
        try:
            return ask.read(parse(content) if parsed and content else None, name)
        except BadAnswer as error:
            raise _Failed(
                f"{url} gave a wrong answer: {error}",
                f"check that {self.section}.url is the server of this run, that its version is supported, and that no "
                "proxy changes or caches answers",
            ) from error

    async def _pause(self, seconds: float) -> None:
        """Wait, and stop waiting when it is known that there is no use in it."""
        until = self._loop.time() + seconds
        while (left := until - self._loop.time()) > 0:
            await asyncio.sleep(min(left, 1.0))
            self.check()

    async def _once(
        self,
        method: str,
        url: str,
        body: Any,
        name: str,
        timeout: float,
        most_bytes: int,
        session: aiohttp.ClientSession,
    ) -> bytes:
        """Return one attempt; the content of the answer.

        Raises:
            RolloutError: the server has refused.
            _Failed: another attempt may succeed.
            asyncio.TimeoutError: there was no whole answer in time.
        """
        limits = aiohttp.ClientTimeout(total=max(timeout, 0.01), sock_connect=CONNECT_SECONDS)
        headers = {"Accept-Encoding": "identity", **({"X-Request-Id": name} if name else {})}
        try:
            async with session.request(
                method, url, json=body, headers=headers, timeout=limits, allow_redirects=False
            ) as response:
                if response.status == 200:
                    return await self._content(response, most_bytes)
                text = (await _beginning(response)).decode(errors="replace")
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as error:
            raise self._unreachable(url, error, taken=False) from error
        except asyncio.TimeoutError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(url, error, taken=True) from error
        self.check()
        if 300 <= response.status < 400:
            raise RolloutError(
                f"{url} redirects to {response.headers.get('Location')}", f"give that server as {self.section}.url"
            )
        message = f"{method} {url}: {response.status} {_reason(text) or response.reason}"
        hint = "the server's log says more"
        if response.status in PASSING:
            wait = _seconds(response.headers.get("Retry-After"))
            raise _Failed(message, hint, taken=response.status != 429, wait=wait)
        raise RolloutError(message, hint)

    async def _content(self, response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
        """Return the body of an answer, read no further than it may be long."""
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise RolloutError(
                f"{response.url} encodes its answer as {encoding[:20]}, although the request forbids that",
                "check whether a proxy stands between this machine and the server",
            )
        content = bytearray()
        async for chunk in response.content.iter_chunked(2**16):
            content += chunk
            if len(content) > most_bytes:
                raise RolloutError(
                    f"{response.url} answers with more than {most_bytes / MEGABYTE:.1f} MB, more than fits the request",
                    f"check that {self.section}.url is the server of this run",
                )
        return bytes(content)

    def _unreachable(self, url: str, error: Exception, *, taken: bool) -> _Failed:
        return _Failed(
            f"{url} cannot be reached: {str(error)[:300] or type(error).__name__}",
            f"check that the server of {self.section}.url is up and that this machine can reach it",
            taken=taken,
        )

    async def _open(self) -> tuple[aiohttp.ClientSession, aiohttp.ClientSession, asyncio.Semaphore]:
        kept = aiohttp.TCPConnector(limit=0)
        single = aiohttp.TCPConnector(limit=0, force_close=True)
        sessions = [aiohttp.ClientSession(connector=each, auto_decompress=False) for each in (kept, single)]
        return sessions[0], sessions[1], asyncio.Semaphore(self.concurrency)

    async def _close_sessions(self) -> None:
        await self._kept.close()
        await self._single.close()


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """Return as much of the body as can be shown."""
    content = b""
    async for chunk in response.content.iter_chunked(2**14):
        content += chunk
        if len(content) > REASON_BYTES:
            break
    return content


def _seconds(retry_after: str | None) -> float:
    """Return what Retry-After says: seconds, or a date; 0 if it says nothing that can be read."""
    if retry_after is None:
        return 0.0
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def _reason(text: str) -> str:
    """Return what an error's answer says, in short."""
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        found = json.loads(text)
        found = found.get("error", found.get("detail", found))
        text = str(found.get("message", found) if isinstance(found, dict) else found)
    return "".join(character if character.isprintable() else " " for character in text[:1000])


def stop_requested() -> bool:
    """Tell whether the run was asked to stop, and is about to."""
    return any(signals.requested for signals in StopSignal.active)
