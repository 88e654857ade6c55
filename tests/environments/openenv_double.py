"""Speaks the protocol of OpenEnv's servers without its package: guess a number, or say `hang`, `die`, `raise`."""

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
            kind, answer = "observation", dict[str, Any](reward=None, done=False)
            if asked["type"] == "reset":
                hidden, tries = str(random.Random(asked["data"]["seed"]).randrange(5, 10)), 0
                answer["observation"] = {"said": f"{int(hidden) % 3}?", "tries": 0}
            elif (guess := asked["data"].get("guess")) is None:
                kind, answer = "error", {"code": "VALIDATION_ERROR", "message": "no guess"}
            elif guess == "raise":
                kind, answer = "error", {"code": "EXECUTION_ERROR", "message": "unlucky"}
            else:
                if guess == "hang":
                    await asyncio.sleep(60)
                if guess == "die":
                    os._exit(1)
                tries, right = tries + 1, guess == hidden
                answer |= {"reward": float(right), "done": right}
                answer["observation"] = {"said": "yes" if right else "no", "tries": tries}
            await socket.send_text(json.dumps({"type": kind, "data": answer}))
    except WebSocketDisconnect:
        pass


if __name__ == "__main__":
    routes = [Route("/health", health), Route("/schema", schema), WebSocketRoute("/ws", play)]
    uvicorn.run(Starlette(routes=routes), port=int(sys.argv[1]), log_level="warning")
