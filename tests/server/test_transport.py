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
A_BYTE_AT_A_TIME = endless(HEAD + b"Content-Length: 1000\r\n\r\n", b" ", 0.05)
NOTHING = endless(b"", b"", 0.05)


def test_an_answer_that_does_not_end_is_given_up_when_its_time_is_over(module: Any, connect: Any) -> None:
    for answer in (A_BYTE_AT_A_TIME, NOTHING, endless(CHUNKED + b"5;", b"a", 0.001)):
        connection, began = connect(answer, timeout=0.2), time.monotonic()
        with pytest.raises(module.RolloutError, match=r"/x did not answer within 0 s\nhint: raise local"):
            asking(module, connection)
        assert time.monotonic() - began < 5
        assert len(connection.server.received) == 1


FLOODS = (
    (endless(b"HTTP/1.1 200 ", b"a" * 1000), "8190 bytes"),
    (endless(HEAD, b"".join(b"X-%d: 1\r\n" % number for number in range(100))), "Too many headers"),
    (endless(HEAD + b"Connection: close\r\n\r\n", b" " * 2**16), "more than 1.0 MB"),
    (endless(CHUNKED, b"1000\r\n" + b" " * 4096 + b"\r\n"), "more than 1.0 MB"),
    (sends(http(200, gzip.compress(bytes(2**24)), "Content-Encoding: gzip")), "although the request forbids that"),
    (sends(http(307, b"", "Location: http://127.0.0.1:9/x")), r"redirects to http://127.0.0.1:9/x\nhint: give that"),
)


def test_a_flood_is_cut_off_and_nobody_is_sent_on(module: Any, connect: Any) -> None:
    for answer, text in FLOODS:
        connection, before = connect(answer), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(module.RolloutError, match=text) as caught:
            asking(module, connection)
        assert f"{connection.url}/x" in str(caught.value)
        assert "\nhint: " in str(caught.value)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024, text


def test_what_is_no_json_is_asked_for_again_and_then_told(module: Any, connect: Any) -> None:
    """Nothing, half of it, NaN, deep nesting, and a long number."""
    answers = importlib.import_module("sgl.workers.servers.answers")
    ask = module.Ask(lambda _: 1, lambda answer, _: answers.of_kind(answer, dict, "it"))
    for content in (b"", b'{"choices": [', b'{"a": NaN}', b"[" * 200_000, b"1" * 10_000):
        connection = connect(sends(http(200, content)))
        wrong = rf"{connection.url}/x gave a wrong answer: it is (not valid JSON|None)"
        with pytest.raises(module.RolloutError, match=wrong):
            connection.post_all("/x", [ask])
        names = [received.name for received in connection.server.received]
        assert len({*names}) == len(names) == 3
        assert all(names)


def test_what_may_pass_is_tried_again_and_nothing_else(module: Any, connect: Any) -> None:
    for status in (408, 429, 500, 503, 400, 401, 404, 501):

        async def answer(writer: Any, received: Received, status: int = status) -> None:
            busy = http(status, b'{"error": {"message": "no\\u001b[2J"}}')
            writer.write(busy if received.number < 3 else as_json("done"))

        connection = connect(answer)
        if status in (408, 429, 500, 503):
            assert asking(module, connection) == ["done"]
            continue
        with pytest.raises(module.RolloutError, match=rf"POST {connection.url}/x: {status} no"):
            asking(module, connection)
        assert len(connection.server.received) == 1


# What a server says of how long to wait: None is an error, as it is beyond the time of a request.
WAITS = {"soon": 0.0, "-5": 0.0, "\u0661": 0.0, "date": 0.9, "9" * 5000: None, "Fri, 31 Dec 9999 23:59:59 GMT": None}


def test_the_server_says_how_long_to_wait(module: Any, connect: Any) -> None:
    for after, least in WAITS.items():
        times: list[float] = []

        async def answer(writer: Any, received: Received, after: str = after, times: list[float] = times) -> None:
            times.append(time.monotonic())
            later = formatdate(time.time() + 2, usegmt=True) if after == "date" else after
            writer.write(http(503, b"down", f"Retry-After: {later}") if received.number == 1 else as_json(1))

        began = time.monotonic()
        if least is None:
            with pytest.raises(module.RolloutError, match="503 down"):
                asking(module, connect(answer))
            assert time.monotonic() - began < 2
        else:
            assert asking(module, connect(answer)) == [1]
            assert times[1] - times[0] >= least


def test_a_connection_that_closes_half_way_is_tried_again(
    module: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.01,) * 8)  # a connection that is kept may be closed by then
    whole = as_json({"text": "x" * 100})
    cuts = itertools.cycle([0, 1, 20, len(whole) // 2, len(whole) - 1])

    async def answer(writer: Any, received: Received) -> None:
        writer.write(whole[: next(cuts)] if received.number % 3 else whole)

    assert asking(module, connect(answer, concurrency=1), 5) == [{"text": "x" * 100}] * 5


def test_a_run_that_is_asked_to_stop_waits_no_longer(
    module: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for an update that is about to end."""
    interrupts = importlib.import_module("sgl.run.process")
    with interrupts.StopSignal():
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        began = time.monotonic()
        with pytest.raises(interrupts.StopRequested):
            asking(module, connect(A_BYTE_AT_A_TIME, timeout=600.0), 3)
        assert time.monotonic() - began < 5

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

    async def only_first_fails(writer: Any, received: Received) -> None:
        await asyncio.sleep(0.3 * (received.body > 0))
        writer.write(as_json(received.body) if received.body else http(400, b'{"detail": "no"}'))

    connection = connect(only_first_fails, concurrency=1)
    with pytest.raises(module.RolloutError, match="400 no"):  # and the others are dropped
        asking(module, connection, 20)
    assert len(connection.server.received) < 4


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
    ended(NOTHING, 1)
    connection = ended(sends(as_json(7)), 0)
    with pytest.raises(module.RolloutError, match="has ended"):
        connection.post("/x", 7, lambda answer: answer)
    assert not connection.answers("/x")
    assert connection.server.received == []
