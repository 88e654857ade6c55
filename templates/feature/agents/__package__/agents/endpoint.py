# vextract:template - edit freely
"""The endpoint that agent programs ask: HTTP on loopback, in the event loop that also writes the turns.

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
# Seconds that a connection may be idle: tools take their time, and turns that are written may hold up the loop.
KEEP_ALIVE = 24 * 3600


class Dialect(NamedTuple):
    """How requests of one kind are read, and answered: whole, as a stream, and with an error."""

    read: Callable[[Any], Asked]
    response: Callable[[Answer], dict[str, Any]]
    events: Callable[[Answer, Any], Iterator[str]]
    error: Callable[[Refusal], dict[str, Any]]


CHAT = Dialect(chat.read_chat, chat.chat_response, chat.chat_events, chat.error_of)
COMPLETIONS = Dialect(chat.read_completion, chat.completion_response, chat.completion_events, chat.error_of)
MESSAGES = Dialect(messages.read_messages, messages.message_response, messages.message_events, messages.error_of)
# A client of Anthropic's adds /v1 to its base URL, one of OpenAI's has it there already: both take the same URL.
PATHS = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": COMPLETIONS,
    "/v1/messages": MESSAGES,
    "/v1/v1/messages": MESSAGES,
}


class Endpoint:
    """Answers requests of sessions, while the event loop runs.

    Attributes:
        sessions: those that go on, by their keys.
        url: below which the paths of the dialects are.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.url = ""
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer, at a port that is free, unless that is done."""
        if self._serving is not None:
            return
        routes = [Route(path, self._answering(dialect), methods=["POST"]) for path, dialect in PATHS.items()]
        routes.append(Route("/v1/models", self._models))
        routes.append(Route("/v1/models/{name:path}", self._models))
        listening = socket.socket()
        listening.bind((LOOPBACK, 0))
        self.url = f"http://{LOOPBACK}:{listening.getsockname()[1]}/v1"
        config = uvicorn.Config(
            Starlette(routes=routes),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=KEEP_ALIVE,
        )
        self._server = _Server(config)
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[listening]))
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Answer no more, and give the port back."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = self._server.force_exit = True
            await self._serving
            self._serving = None

    def _answering(self, dialect: Dialect) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            try:
                session = self._session(request)
                try:
                    body = await request.json()
                except ValueError as error:
                    raise Refusal(f"the request is no JSON: {error}") from error
                if not isinstance(body, dict):
                    raise Refusal("the request is no JSON object")
                found = await session.answer(dialect.read(body))
            except Refusal as refusal:
                return JSONResponse(dialect.error(refusal), refusal.status)
            if body.get("stream"):
                return StreamingResponse(dialect.events(found, body), media_type="text/event-stream")
            return JSONResponse(dialect.response(found))

        return answer

    async def _models(self, request: Request) -> Response:
        name = request.path_params.get("name")
        try:
            self._session(request)
            if name not in (None, MODEL):
                chat.check({"model": name})
        except Refusal as refusal:
            return JSONResponse(chat.error_of(refusal), refusal.status)
        return JSONResponse(chat.models() if name is None else chat.models()["data"][0])

    def _session(self, request: Request) -> Session:
        """Return the session that a request is of.

        Raises:
            Refusal: it has no key of one.
        """
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        session = self.sessions.get(request.headers.get("x-api-key") or bearer)
        if session is None:
            raise ended()
        return session


class _Server(uvicorn.Server):
    """A server that leaves the signals to the run."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing."""
        yield
