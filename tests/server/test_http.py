"""Requests to a server: many at a time, again when a connection breaks, and told clearly when they fail."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Answers(ThreadingHTTPServer):
    """Answers POST requests by a function of the body and the number of the request."""

    daemon_threads = True
    answer: Callable[[Any, int], Any]
    count = 0
    under_way = 0
    most_under_way = 0
    lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client has hung up."""


class Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.count += 1
            number = server.count
            server.under_way += 1
            server.most_under_way = max(server.most_under_way, server.under_way)
        try:
            answer = server.answer(body, number)
        finally:
            with server.lock:
                server.under_way -= 1
        if answer is None:  # hang up
            self.connection.close()
            return
        status, value = answer if isinstance(answer, tuple) else (200, answer)
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Answers]:
    with Answers(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def connect(module: Any, server: Answers) -> Iterator[Callable[..., Any]]:
    """Connects to the server that answers as told."""
    connections = []

    def connecting(answer: Callable[[Any, int], Any], **settings: Any) -> Any:
        server.answer = answer
        url = f"http://127.0.0.1:{server.server_address[1]}"
        chosen = {"concurrency": 8, "timeout": 30.0, "check": lambda: None, **settings}
        connections.append(module.Connection(url, **chosen))
        return connections[-1]

    yield connecting
    for connection in connections:
        connection.close()
        connection.close()


def asking(module: Any, bodies: list[Any]) -> list[Any]:
    """Requests with these bodies, whose answers are taken as they are."""
    return [module.Ask(lambda _, body=body: body, lambda answer, _: answer) for body in bodies]


def test_answers_come_in_the_order_of_the_requests(connect: Any, module: Any) -> None:
    def slower_first(body: Any, number: int) -> Any:
        time.sleep(0.002 * (20 - body))
        return body * 2

    assert connect(slower_first).post_all("/x", asking(module, list(range(20)))) == [2 * n for n in range(20)]


def test_no_more_requests_are_under_way_than_allowed(connect: Any, module: Any, server: Answers) -> None:
    def slow(body: Any, number: int) -> Any:
        time.sleep(0.02)
        return body

    connect(slow, concurrency=3).post_all("/x", asking(module, list(range(12))))
    assert server.most_under_way == 3


def test_a_broken_connection_is_tried_again(connect: Any, module: Any, server: Answers) -> None:
    connection = connect(lambda body, number: None if number <= 2 else body)
    assert connection.post_all("/x", asking(module, [7])) == [7]
    assert server.count == 3


def test_what_changes_the_server_is_sent_once(connect: Any, module: Any, server: Answers) -> None:
    connection = connect(lambda body, number: None)
    with pytest.raises(module.RolloutError, match="cannot be reached"):
        connection.post("/x", 7, lambda answer: answer)
    assert server.count == 1


def test_there_is_no_other_attempt_when_it_is_known_why(connect: Any, module: Any, server: Answers) -> None:
    def check() -> None:
        if server.count:
            raise module.RolloutError("the server has ended", "look at its log")

    connection = connect(lambda body, number: None, check=check)
    with pytest.raises(module.RolloutError, match="has ended"):
        connection.post_all("/x", asking(module, [7]))
    assert server.count == 1


def test_a_server_that_is_known_to_have_ended_is_asked_nothing(connect: Any, module: Any, server: Answers) -> None:
    """It may answer for a while, where what watched over it has gone first."""

    def check() -> None:
        raise module.RolloutError("the server has ended", "look at its log")

    connection = connect(lambda body, number: body, check=check)
    with pytest.raises(module.RolloutError, match="has ended"):
        connection.post_all("/x", asking(module, [7]))
    with pytest.raises(module.RolloutError, match="has ended"):
        connection.post("/x", 7, lambda answer: answer)
    assert not connection.answers("/x")
    assert server.count == 0


def test_an_error_of_the_server_is_told_and_not_tried_again(connect: Any, module: Any, server: Answers) -> None:
    connection = connect(lambda body, number: (400, {"error": {"message": "prompt is too long"}}))
    with pytest.raises(module.RolloutError, match="/x: 400 prompt is too long"):
        connection.post_all("/x", asking(module, [7]))
    assert server.count == 1


def test_no_answer_in_time_is_told(connect: Any, module: Any) -> None:
    connection = connect(lambda body, number: time.sleep(1), timeout=0.2)
    with pytest.raises(module.RolloutError, match="did not answer within"):
        connection.post_all("/x", asking(module, [7]))


def test_when_one_fails_the_others_are_dropped(connect: Any, module: Any, server: Answers) -> None:
    def answer(body: Any, number: int) -> Any:
        if body == 0:
            return 400, {"detail": "no"}
        time.sleep(0.3)
        return body

    with pytest.raises(module.RolloutError, match="no"):
        connect(answer, concurrency=1).post_all("/x", asking(module, list(range(20))))
    assert server.count < 4
