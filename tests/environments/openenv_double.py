"""Speaks the protocol of OpenEnv's servers without its package: a number is to be guessed; `hang` and `die` do it."""

import asyncio
import json
import os
import random
import sys
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect


async def health(request: Request) -> JSONResponse:
    return JSONResponse({"status": "healthy", "process": os.getpid()})


async def schema(request: Request) -> JSONResponse:
    return JSONResponse({"action": {"required": ["guess"], "properties": {"guess": {"type": "string"}}}})


async def play(socket: WebSocket) -> None:
    await socket.accept()
    hidden, tries = "", 0
    try:
        while True:
            asked: dict[str, Any] = json.loads(await socket.receive_text())
            answer: dict[str, Any] = {"reward": None, "done": False}
            if asked["type"] == "reset":
                hidden, tries = str(random.Random(asked["data"]["seed"]).randrange(5, 10)), 0
                answer["observation"] = {"said": f"{int(hidden) % 3}?", "tries": 0}
            else:
                guess = asked["data"]["guess"]
                if guess == "hang":
                    await asyncio.sleep(60)
                if guess == "die":
                    os._exit(1)
                tries, right = tries + 1, guess == hidden
                answer |= {"reward": float(right), "done": right}
                answer["observation"] = {"said": "yes" if right else "no", "tries": tries}
            await socket.send_text(json.dumps({"type": "observation", "data": answer}))
    except WebSocketDisconnect:
        pass


if __name__ == "__main__":
    routes = [Route("/health", health), Route("/schema", schema), WebSocketRoute("/ws", play)]
    uvicorn.run(Starlette(routes=routes), port=int(sys.argv[1]), log_level="warning")
