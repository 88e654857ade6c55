"""What a server may send on the wire: every request ends, in bounded time and space, and says what was wrong."""

import asyncio
import gzip
import importlib
import itertools
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import pytest

from tests.server.wire import RawServer, Received, as_json, http

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")


@pytest.fixture
def connect(module: Any) -> Iterator[Callable[..., Any]]:
    """Connects to a server that sends what a function of the writer and the request writes."""
    opened: list[Any] = []

    def connecting(answer: Any, **settings: Any) -> Any:
        server = RawServer(answer)
        chosen = {"concurrency": 4, "timeout": 20.0, "check": lambda: None, **settings}
        connection = module.Connection(server.url, **chosen)
        connection.server = server
        opened.extend([connection, server])
        return connection

    yield connecting
    for one in opened:
        one.close()


def asking(module: Any, connection: Any, count: int = 1) -> list[Any]:
    """What the server answers, as it is."""
    asks = [module.Ask(lambda _, number=number: number, lambda answer, _: answer) for number in range(count)]
    return list(connection.post_all("/x", asks))


async def repeat(writer: Any, start: bytes, piece: bytes, pause: float = 0.0) -> None:
    """Send `start`, and `piece` for ever."""
    writer.write(start)
    while True:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause)


def sends(*pieces: bytes) -> Any:
    """An answer of these bytes."""

    async def send(writer: Any, received: Received) -> None:
        for piece in pieces:
            writer.write(piece)
        await writer.drain()

    return send


def endless(start: bytes, piece: bytes, pause: float = 0.0) -> Any:
    """An answer that never ends."""
    return lambda writer, received: repeat(writer, start, piece, pause)


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "a byte at a time": endless(HEAD + b"Content-Length: 1000\r\n\r\n", b" ", 0.05),
    "a header at a time": endless(HEAD, b"X-One: 1\r\n", 0.05),
    "nothing at all": endless(b"", b"", 0.05),
    "half a status line": endless(b"HTTP/1.1 2", b"", 0.05),
    "a chunk's extension": endless(CHUNKED + b"5;", b"a", 0.001),
    "a body without end, slowly": endless(HEAD + b"Connection: close\r\n\r\n", b"1", 0.05),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_answer_that_does_not_end_is_given_up_when_its_time_is_over(module: Any, connect: Any, name: str) -> None:
    connection = connect(ENDLESS[name], timeout=0.2)
    began = time.monotonic()
    with pytest.raises(module.RolloutError, match=rf"{connection.url}/x did not answer within 0 s\nhint: raise local"):
        asking(module, connection)
    assert time.monotonic() - began < 5
    assert len(connection.server.received) == 1


FLOODS = {
    "headers": (endless(HEAD, b"".join(b"X-%d: 1\r\n" % number for number in range(100))), "Too many headers"),
    "one header": (endless(HEAD + b"X: ", b"a" * 1000), "more than 8190 bytes"),
    "a status line": (endless(b"HTTP/1.1 200 ", b"a" * 1000), "8190 bytes"),
    "a body": (endless(HEAD + b"Connection: close\r\n\r\n", b" " * 2**16), "more than 1.0 MB"),
    "chunks": (endless(CHUNKED, b"1000\r\n" + b" " * 4096 + b"\r\n"), "more than 1.0 MB"),
    "trailers": (endless(CHUNKED + b"0\r\n", b"X: 1\r\n" * 100), "Too many headers"),
    "a body that says how long it is": (sends(http(200, b" " * 2**21)), "more than 1.0 MB"),
    "a compressed body": (
        sends(http(200, gzip.compress(bytes(2**24)), "Content-Encoding: gzip")),
        "encodes its answer as gzip, although the request forbids that",
    ),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_is_cut_off(module: Any, connect: Any, name: str) -> None:
    answer, text = FLOODS[name]
    connection = connect(answer)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(module.RolloutError, match=text) as caught:
        asking(module, connection)
    assert connection.url in str(caught.value)
    assert "\nhint: " in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


NO_JSON = {
    "nothing": b"",
    "text": b"<html>502 Bad Gateway</html>",
    "half of it": b'{"choices": [',
    "NaN": b'{"a": NaN}',
    "Infinity": b"[-Infinity]",
    "no UTF-8": b'"\xff\xfe"',
    "deeply nested": b"[" * 200_000,
    "a number of 10,000 digits": b"1" * 10_000,
}


@pytest.mark.parametrize("name", NO_JSON)
def test_what_is_no_json_is_asked_for_again_and_then_told(module: Any, connect: Any, name: str) -> None:
    connection = connect(sends(http(200, NO_JSON[name])))
    answers = importlib.import_module("sgl.workers.servers.answers")
    ask = module.Ask(lambda _: 1, lambda answer, _: answers.of_kind(answer, dict, "it"))
    wrong = rf"{connection.url}/x gave a wrong answer: it is (not valid JSON|None)"
    with pytest.raises(module.RolloutError, match=wrong):
        connection.post_all("/x", [ask])
    assert len(connection.server.received) == 3
    names = [received.name for received in connection.server.received]
    assert len(set(names)) == 3
    assert all(names)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 400, 401, 403, 404, 413, 422, 501])
def test_what_may_pass_is_tried_again_and_nothing_else(module: Any, connect: Any, status: int) -> None:
    async def answer(writer: Any, received: Received) -> None:
        busy = http(status, b'{"error": {"message": "no\\u001b[2J"}}')
        writer.write(busy if received.number < 3 else as_json("done"))

    connection = connect(answer)
    if (status >= 500 and status != 501) or status in (408, 425, 429):
        assert asking(module, connection) == ["done"]
        return
    with pytest.raises(module.RolloutError, match=rf"POST {connection.url}/x: {status} no"):
        asking(module, connection)
    assert len(connection.server.received) == 1


# What a server says of how long to wait: None is an error, as it is beyond the time of a request.
WAITS = {
    **dict.fromkeys(("soon", "-5", "nan", "", "\u0661", "1e9"), 0.0),
    "1": 0.9,
    "date": 0.9,
    **dict.fromkeys(("86400", "9" * 5000, "Fri, 31 Dec 9999 23:59:59 GMT")),
}


@pytest.mark.parametrize("after", WAITS)
def test_the_server_says_how_long_to_wait(module: Any, connect: Any, after: str) -> None:
    times: list[float] = []

    async def answer(writer: Any, received: Received) -> None:
        times.append(time.monotonic())
        later = formatdate(time.time() + 2, usegmt=True) if after == "date" else after
        writer.write(http(503, b"down", f"Retry-After: {later}") if received.number == 1 else as_json(1))

    began, least = time.monotonic(), WAITS[after]
    if least is None:
        with pytest.raises(module.RolloutError, match="503 down"):
            asking(module, connect(answer))
        assert time.monotonic() - began < 2
    else:
        assert asking(module, connect(answer)) == [1]
        assert times[1] - times[0] >= least


def test_all_attempts_share_the_time_of_a_request(module: Any, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.01,) * 1000)

    async def answer(writer: Any, received: Received) -> None:
        await asyncio.sleep(0.1)
        writer.write(http(503, b""))

    began = time.monotonic()
    with pytest.raises(module.RolloutError):
        asking(module, connect(answer, timeout=0.4))
    assert 0.3 < time.monotonic() - began < 3


def test_waiting_for_a_turn_is_not_the_servers_time(module: Any, connect: Any) -> None:
    async def answer(writer: Any, received: Received) -> None:
        await asyncio.sleep(0.05)
        writer.write(as_json(received.body))

    assert asking(module, connect(answer, concurrency=1, timeout=0.3), 8) == list(range(8))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nobody_is_sent_on(module: Any, connect: Any, status: int) -> None:
    connection = connect(sends(http(status, b"", "Location: http://127.0.0.1:9/elsewhere")))
    with pytest.raises(module.RolloutError, match=r"redirects to http://127.0.0.1:9/elsewhere\nhint: give that"):
        asking(module, connection)


def test_a_connection_that_closes_half_way_is_tried_again(
    module: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.01,) * 8)  # a connection that is kept may be closed by then
    whole = as_json({"text": "x" * 100})
    cuts = itertools.cycle([0, 1, 20, len(whole) // 2, len(whole) - 1])

    async def answer(writer: Any, received: Received) -> None:
        writer.write(whole[: next(cuts)] if received.number % 3 else whole)

    assert asking(module, connect(answer, concurrency=1), 5) == [{"text": "x" * 100}] * 5


def test_an_answer_too_many_is_not_the_next_requests(module: Any, connect: Any) -> None:
    """Bytes that follow an answer on the same connection."""

    async def answer(writer: Any, received: Received) -> None:
        writer.write((as_json(received.body) + as_json("stale")).replace(b"close", b"keep-alive"))
        await writer.drain()
        await asyncio.sleep(0.2)

    connection = connect(answer, concurrency=1)
    assert asking(module, connection, 3) == [0, 1, 2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_asked_to_stop_waits_no_longer(module: Any, connect: Any, number: int) -> None:
    interrupts = importlib.import_module("sgl.run.process")
    connection = connect(ENDLESS["a byte at a time"], timeout=600.0)
    with interrupts.StopSignal():
        threading.Timer(0.1, os.kill, [os.getpid(), number]).start()
        began = time.monotonic()
        with pytest.raises(interrupts.StopRequested):
            asking(module, connection, 3)
        assert time.monotonic() - began < 5


def test_an_update_may_end_when_a_run_is_asked_to_stop(
    module: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts = importlib.import_module("sgl.run.process")

    async def answer(writer: Any, received: Received) -> None:
        await asyncio.sleep(0.4 if received.path == "/short" else 600.0)
        writer.write(as_json("done"))

    connection = connect(answer)
    with interrupts.StopSignal():
        os.kill(os.getpid(), signal.SIGTERM)
        assert connection.post("/short", {}, lambda answer: answer) == "done"
        monkeypatch.setattr(module, "STOP_GRACE", 0.1)
        with pytest.raises(interrupts.StopRequested):
            connection.post("/long", {}, lambda answer: answer)


def test_answers_come_in_the_order_of_the_requests_of_which_so_many_are_under_way(module: Any, connect: Any) -> None:
    under_way: set[int] = set()
    most: list[int] = []

    async def slower_first(writer: Any, received: Received) -> None:
        under_way.add(received.body)
        most.append(len(under_way))
        await asyncio.sleep(0.002 * (20 - received.body))
        under_way.remove(received.body)
        writer.write(as_json(received.body * 2))

    assert asking(module, connect(slower_first, concurrency=3), 20) == [2 * n for n in range(20)]
    assert max(most) == 3


def test_when_one_fails_the_others_are_dropped(module: Any, connect: Any) -> None:
    async def answer(writer: Any, received: Received) -> None:
        await asyncio.sleep(0.3 * (received.body > 0))
        writer.write(as_json(received.body) if received.body else http(400, b'{"detail": "no"}'))

    connection = connect(answer, concurrency=1)
    with pytest.raises(module.RolloutError, match="400 no"):
        asking(module, connection, 20)
    assert len(connection.server.received) < 4


def test_what_changes_the_server_is_sent_once(module: Any, connect: Any) -> None:
    connection = connect(sends())
    with pytest.raises(module.RolloutError, match="cannot be reached"):
        connection.post("/x", 7, lambda answer: answer)
    assert len(connection.server.received) == 1


def test_a_server_that_is_known_to_have_ended_is_asked_nothing_and_not_waited_for(module: Any, connect: Any) -> None:
    """It may answer for a while, where what watched over it has gone first; what it leaves open is no answer."""

    def ended(answer: Any, requests: int) -> Any:
        def check() -> None:
            if len(connection.server.received) >= requests:
                raise module.RolloutError("the server has ended", "look at its log")

        connection = connect(answer, check=check, timeout=600.0)
        with pytest.raises(module.RolloutError, match="has ended"):
            asking(module, connection)
        assert len(connection.server.received) == requests
        return connection

    ended(sends(), 1)
    ended(ENDLESS["nothing at all"], 1)
    connection = ended(sends(as_json(7)), 0)
    with pytest.raises(module.RolloutError, match="has ended"):
        connection.post("/x", 7, lambda answer: answer)
    assert not connection.answers("/x")
    assert connection.server.received == []
