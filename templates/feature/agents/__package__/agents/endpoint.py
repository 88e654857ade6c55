# vextract:template - edit freely
"""The endpoint that agent programs ask: HTTP on loopback, in the event loop in which the turns are written.

Each session has a key. Whoever has none is refused.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from . import chat, messages
from .session import MODEL, Answer, Asked, Refusal, Session, ended

LOOPBACK = "127.0.0.1"
# Seconds that a connection may be idle: tools take their time, and so do turns.
KEEP_ALIVE = 24 * 3600
POLICY = {"id": MODEL, "object": "model", "created": 0, "owned_by": "vextract"}


class Dialect(NamedTuple):
    """How requests are read, and answered: whole, as a stream, and with an error."""

    read: Callable[[Any], Asked]
    response: Callable[[Answer], dict[str, Any]]
    events: Callable[[Answer, Any], Iterator[str]]
    error: Callable[[Refusal], dict[str, Any]] = chat.error_of


MESSAGES = Dialect(messages.read_messages, messages.message_response, messages.message_events, messages.error_of)
DIALECTS = {
    "chat/completions": Dialect(chat.read_chat, chat.chat_response, chat.chat_events),
    "completions": Dialect(chat.read_completion, chat.completion_response, chat.completion_events),
    "messages": MESSAGES,
    "v1/messages": MESSAGES,  # a client of Anthropic's adds /v1 to what it is given, one of OpenAI's does not
}


class Endpoint:
    """Answers requests of sessions while the event loop runs.

    Attributes:
        sessions: those that go on, by their keys.
        url: below which the dialects are.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.url = ""
        self._answering = 0
        self._server: Any = None
        self._serving: Any = None

    async def start(self) -> None:
        """Begin to answer, at a port that is free, unless that is done."""
        if self._serving is not None:
            return
        listening = socket.socket()
        listening.bind((LOOPBACK, 0))
        self.url = f"http://{LOOPBACK}:{listening.getsockname()[1]}/v1"
        app = Starlette(routes=[Route("/v1/{path:path}", self._respond, methods=["GET", "POST"])])
        quiet = {"log_config": None, "log_level": "critical", "access_log": False}
        config = uvicorn.Config(app, lifespan="off", ws="none", timeout_keep_alive=KEEP_ALIVE, **quiet)  # type: ignore[arg-type]
        self._server = _Server(config)
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[listening]))
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0)

    async def settle(self) -> None:
        """Wait until requests of sessions that have ended are refused."""
        while self._answering:
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Answer no more, and give the port back."""
        if self._serving is not None:
            self._server.should_exit = self._server.force_exit = True
            await self._serving
            self._serving = None

    async def _respond(self, request: Request) -> Response:
        path = request.path_params["path"]
        dialect = DIALECTS.get(path) if request.method == "POST" else None
        try:
            bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
            session = self.sessions.get(request.headers.get("x-api-key") or bearer)
            if session is None:
                raise ended()
            if path in ("models", f"models/{MODEL}"):
                return JSONResponse({"object": "list", "data": [POLICY]} if path == "models" else POLICY)
            if dialect is None:
                raise Refusal(
                    f"there is no {request.method} /v1/{path}: {', '.join(DIALECTS)}", "not_found", status=404
                )
            body = await _body_of(request)
            self._answering += 1
            try:
                answer = await session.answer(dialect.read(body))
            finally:
                self._answering -= 1
        except Refusal as refusal:
            return JSONResponse((dialect.error if dialect else chat.error_of)(refusal), refusal.status)
        if body.get("stream"):
            return StreamingResponse(dialect.events(answer, body), media_type="text/event-stream")
        return JSONResponse(dialect.response(answer))


async def _body_of(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError as error:
        raise Refusal(f"the request is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refusal("the request is no JSON object")
    return body


class _Server(uvicorn.Server):
    """A server that leaves the signals to the run."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
