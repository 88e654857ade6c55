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
        connection = module.Connection(
            server.url, **{"concurrency": 4, "timeout": 20.0, "check": lambda: None, **settings}
        )
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


def sends(content: bytes, piece: bytes = b"", pause: float = 0.0) -> Any:
    """An answer of these bytes, and of a piece that is sent for ever, if there is one."""

    async def send(writer: Any, received: Received) -> None:
        writer.write(content)
        while piece:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    return send


HEAD = b"HTTP/1.1 200 OK\r\n"
A_BYTE_AT_A_TIME = sends(HEAD + b"Content-Length: 1000\r\n\r\n", b" ", 0.05)


def test_an_answer_that_does_not_end_is_given_up_when_its_time_is_over(module: Any, connect: Any) -> None:
    for answer in (A_BYTE_AT_A_TIME, sends(HEAD, b"X-One: 1\r\n", 0.05)):
        connection, began = connect(answer, timeout=0.2), time.monotonic()
        with pytest.raises(module.RolloutError, match=r"/x did not answer within 0 s\nhint: raise local"):
            asking(module, connection)
        assert time.monotonic() - began < 5
        assert len(connection.server.received) == 1


FLOODS = (
    (sends(b"HTTP/1.1 200 ", b"a" * 1000), "8190 bytes"),
    (sends(HEAD + b"Connection: close\r\n\r\n", b" " * 2**16), "more than 1.0 MB"),
    (sends(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b" " * 4096 + b"\r\n"), "more than 1.0 MB"),
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


def test_what_may_pass_is_tried_again_and_nothing_else(
    module: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of a kind, what is no JSON, and a connection that closes half way."""
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.01,) * 8)  # a connection that is kept may be closed by then
    whole = as_json({"text": "x" * 100})
    broken = [whole[:cut] for cut in (0, 20, len(whole) // 2)] + [http(200, b"[" * 200_000), http(200, b'{"a": NaN}')]
    for status in (429, 503, 400, 501):
        busy = [http(status, b'{"error": {"message": "no\\u001b[2J"}}')]
        sent = itertools.chain(busy if status in (400, 501) else broken + busy, itertools.repeat(whole))

        async def answer(writer: Any, received: Received, sent: Any = sent) -> None:
            writer.write(next(sent))

        connection = connect(answer)
        if status in (429, 503):
            assert asking(module, connection) == [{"text": "x" * 100}]
            assert len({received.name for received in connection.server.received}) == 7
            continue
        with pytest.raises(module.RolloutError, match=rf"POST {connection.url}/x: {status} no"):
            asking(module, connection)
        assert len(connection.server.received) == 1


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


def test_a_server_that_is_known_to_have_ended_is_asked_nothing_and_not_waited_for(module: Any, connect: Any) -> None:
    """It may answer for a while, where what watched over it has gone first; what it leaves open is no answer."""

    def check() -> None:
        raise module.RolloutError("the server has ended", "look at its log")

    connection = connect(sends(as_json(7)), check=check, timeout=600.0)
    for ask in (lambda: asking(module, connection), lambda: connection.post("/x", 7, lambda answer: answer)):
        with pytest.raises(module.RolloutError, match="has ended"):
            ask()
    assert not connection.answers("/x")
    assert connection.server.received == []
