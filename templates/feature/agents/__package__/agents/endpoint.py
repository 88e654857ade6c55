# vextract:template - edit freely
"""The endpoint that agent programs ask: HTTP on loopback, in the event loop in which the turns are written.

Each session has a key. Whoever has none is refused.
"""

import asyncio
import contextlib
import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from .dialects import DIALECTS, MODEL, Refusal, ended, read_request
from .session import Session

LOOPBACK = "127.0.0.1"
# Seconds that a connection may be idle: tools take their time, and so do turns.
KEEP_ALIVE = 24 * 3600
OF_RESPONSES = ". Have the client ask chat completions: the agents SDK by OpenAIChatCompletionsModel"
POLICY = {"id": MODEL, "object": "model", "created": 0, "owned_by": "vextract"}
MODELS = {"models": {"object": "list", "data": [POLICY]}, f"models/{MODEL}": POLICY}


class Endpoint:
    """Answers requests of sessions while the event loop runs.

    Attributes:
        sessions: those that go on, by their keys.
        url: below which the dialects are.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.url = ""
        self._server: Any = None
        self._serving: Any = None

    def start(self) -> None:
        """Begin to answer, at a port that is free, unless that is done."""
        if self._serving is not None:
            return
        listening = socket.create_server((LOOPBACK, 0))
        self.url = f"http://{LOOPBACK}:{listening.getsockname()[1]}/v1"
        app = Starlette(routes=[Route("/v1/{path:path}", self._respond, methods=["GET", "POST"])])
        quiet: dict[str, Any] = {"log_config": None, "log_level": "critical", "access_log": False}
        config = uvicorn.Config(app, lifespan="off", ws="none", timeout_keep_alive=KEEP_ALIVE, **quiet)
        self._server = uvicorn.Server(config)
        self._server.capture_signals = contextlib.nullcontext  # they are the run's
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[listening]))

    async def stop(self) -> None:
        """Answer no more, and give the port back."""
        if self._serving is not None:
            self._server.should_exit = self._server.force_exit = True
            await self._serving
            self._serving = None

    async def _respond(self, request: Request) -> Response:
        path, session = request.path_params["path"], None
        dialect = DIALECTS.get(path, DIALECTS["chat/completions"])
        try:
            bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
            session = self.sessions.get(request.headers.get("x-api-key") or bearer)
            if session is None:
                raise ended()
            if path in MODELS:
                return JSONResponse(MODELS[path])
            if path not in DIALECTS or request.method != "POST":
                text = f"there is no {request.method} /v1/{path}, but {', '.join(DIALECTS)}"
                raise Refusal(f"{text}{OF_RESPONSES if path == 'responses' else ''}", "not_found", status=404)
            session.counts["requests"] += 1
            body = await request.json()
            answer = await session.answer(read_request(body, dialect.asks))
            if body.get("stream"):
                return StreamingResponse(dialect.events(answer, body), media_type="text/event-stream")
            return JSONResponse(dialect.response(answer))
        except Refusal as error:
            refusal = error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            refusal = Refusal(f"the request has not the form of {path}: {error!r}")
        if session is not None:
            session.counts["refused"] += 1
        return JSONResponse(dialect.error(refusal), refusal.status)
