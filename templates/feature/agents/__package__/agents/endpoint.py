# vextract:template - edit freely
"""The endpoint that agent programs ask: HTTP on loopback, in the event loop in which the turns are written.

Its dialects are OpenAI's chat completions and completions, and Anthropic's messages. Each is read into one form, and an
answer is put as a response or as the events of a stream, which begins when the turn is written: calls are read from the
whole. Each session has a key. Whoever has none is refused.
"""

import asyncio
import contextlib
import json
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

# A message, and a tool, in OpenAI's form; but calls of messages have dictionaries as arguments, where they can.
Message = dict[str, Any]
Tool = dict[str, Any]

# What requests call the policy.
MODEL = "policy"
# Settings of a request that the policy does not follow: it writes as it is trained.
NOT_FOLLOWED = (
    "temperature top_p top_k min_p frequency_penalty presence_penalty repetition_penalty logit_bias seed logprobs "
    "response_format reasoning_effort thinking chat_template_kwargs"
).split()
ROLES = {"developer": "system", **{role: role for role in ("system", "user", "assistant", "tool")}}
# Anthropic's words for why a turn has ended, and for errors by their status.
ENDS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
ERRORS = {401: "authentication_error", 404: "not_found_error", 500: "api_error"}
LOOPBACK = "127.0.0.1"
ENDED = "this key is of no session that goes on; each call of the program gets one, which ends with it"
# Seconds that a connection may be idle: tools take their time, and so do turns.
KEEP_ALIVE = 24 * 3600
OF_RESPONSES = ". Have the client ask chat completions: the agents SDK by OpenAIChatCompletionsModel"
POLICY = {"id": MODEL, "object": "model", "created": 0, "owned_by": "vextract"}
MODELS = {"models": {"object": "list", "data": [POLICY]}, f"models/{MODEL}": POLICY}


class Refusal(Exception):
    """A request cannot be answered; with a status of HTTP, and OpenAI's code where it has one."""

    def __init__(self, message: str, code: str = "invalid_value", param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message, self.code, self.param, self.status = message, code, param, status

    def body(self) -> dict[str, Any]:
        """Return the response, which is one of either dialect."""
        kind = ERRORS.get(self.status, "invalid_request_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"type": "error", "error": error}


@dataclass
class Asked:
    """What a request asks."""

    messages: list[Message]  # of a conversation; their content is text
    prompt: str  # of a completion instead
    tools: list[Tool]  # that may be called
    max_tokens: int | None  # at most so many are written; None: as many as there is room for
    stop: list[str]  # texts that end a turn
    ignored: list[str]  # settings of the request that are not followed


class Answer(NamedTuple):
    """What the policy answers."""

    text: str
    calls: list[dict[str, Any]]  # of tools, as OpenAI's answers have them
    end: str  # why it ended: stop, length or tool_calls
    prompt_tokens: int
    tokens: int


def read_request(body: Mapping[str, Any]) -> Asked:
    """Read a request of any dialect: messages and tools of Anthropic's have other keys than OpenAI's.

    Raises:
        Refusal: it asks for what cannot be had.
        AttributeError, KeyError, TypeError: it has another form.
    """
    if body.get("model") != MODEL:
        text = f"there is no model {body.get('model')!r}; the program gets its name as the argument model: {MODEL}"
        raise Refusal(text, "model_not_found", "model", 404)
    for name in ("n", "best_of", "echo", "suffix"):
        if body.get(name) not in (None, False, 1):
            raise Refusal(f"{name} cannot be had: each request gets one answer", param=name)
    most = body.get("max_completion_tokens") or body.get("max_tokens")
    if most is not None and (not isinstance(most, int) or most < 1):
        raise Refusal(f"max_tokens is {most!r}, and has to be a whole number from 1 on", param="max_tokens")
    stop = body.get("stop") or body.get("stop_sequences") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not all(isinstance(each, str) for each in stop):
        raise Refusal("stop is a text, or a list of texts", param="stop")
    ignored = [name for name in NOT_FOLLOWED if body.get(name) not in (None, False)]
    asked = Asked([], "", [], most, [each for each in stop if each], ignored)
    if "prompt" in body:
        prompt = body["prompt"]
        asked.prompt = prompt[0] if isinstance(prompt, list) and len(prompt) == 1 else prompt
        if not prompt or not isinstance(asked.prompt, str):
            raise Refusal("prompt is one text", param="prompt")
        return asked
    system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
    asked.messages = [each for message in [*system, *body["messages"]] for each in _read_message(message)]
    if not body["messages"]:
        raise Refusal("messages is a list of at least one message", param="messages")
    choice = body.get("tool_choice") or "auto"
    choice = choice if isinstance(choice, str) else choice["type"]
    asked.tools = [_read_tool(tool) for tool in body.get("tools") or () if choice != "none"]
    asked.ignored += ["tool_choice"] if choice not in ("auto", "none") else []
    return asked


def parsed(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call with its arguments as a dictionary, if they are one."""
    function, arguments = call["function"], call["function"]["arguments"]
    with contextlib.suppress(TypeError, ValueError):  # it is one already, or no JSON
        read = json.loads(arguments)
        arguments = read if isinstance(read, dict) else arguments
    return {"id": call["id"], "type": "function", "function": {"name": function["name"], "arguments": arguments}}


def _read_message(message: Any) -> Iterator[Message]:
    """Yield a message; what tools have said, which Anthropic's has within, comes as messages before it."""
    role, content = ROLES.get(message["role"]), message.get("content") or ""
    if role is None:
        raise Refusal(f"a message has the role {message['role']!r}, and none of {', '.join(ROLES)}", param="messages")
    calls = [parsed(call) for call in message.get("tool_calls") or ()]
    said = [] if isinstance(content, list) else [{"text": content}]
    for block in content if isinstance(content, list) else ():
        if block["type"] == "tool_result":
            yield {"role": "tool", "content": _text_of(block.get("content")), "tool_call_id": block["tool_use_id"]}
        elif block["type"] == "tool_use":
            function = {"name": block["name"], "arguments": block["input"]}
            calls.append({"id": block["id"], "type": "function", "function": function})
        else:
            said.append(block)
    if said or calls:
        kept = {name: message[name] for name in ("name", "tool_call_id") if message.get(name) is not None}
        yield {"role": role, "content": _text_of(said), **({"tool_calls": calls} if calls else {}), **kept}


def _text_of(content: Any) -> str:
    blocks = content if isinstance(content, list) else [{"text": content or ""}]
    for block in blocks:
        if not isinstance(block.get("text"), str):
            raise Refusal(f"content of type {block.get('type')} cannot be had: the policy reads text", param="messages")
    return "".join(block["text"] for block in blocks)


def _read_tool(tool: Any) -> Tool:
    function = tool.get("function") or {}
    if "input_schema" in tool:  # Anthropic's form
        text = tool.get("description") or ""
        function = {"name": tool["name"], "description": text, "parameters": tool["input_schema"]}
    properties = (function.get("parameters") or {}).get("properties") or {}
    if not isinstance(function.get("name"), str) or not isinstance(properties, dict):
        raise Refusal("a tool is a function with a name, and with a schema of its parameters", param="tools")
    return {"type": "function", "function": function}


class Chat:
    """How chat completions of OpenAI's are answered: whole, as a stream, and with an error."""

    def response(self, answer: Answer, kind: str = "chat.completion", said: str = "message") -> dict[str, Any]:
        """Return an answer as a whole."""
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or (None if answer.calls else "")}
        if answer.calls:
            message["tool_calls"] = [{"index": index, **call} for index, call in enumerate(answer.calls)]
        return _completion(kind, answer, {said: message})

    def events(self, answer: Answer, body: Mapping[str, Any]) -> Iterator[str]:
        """Yield an answer as a stream, of one piece."""
        whole = self.response(answer, "chat.completion.chunk", "delta")
        yield _event({**whole, "usage": None})
        if (body.get("stream_options") or {}).get("include_usage"):
            yield _event({**whole, "choices": []})
        yield "data: [DONE]\n\n"


class Completions(Chat):
    """Completions of OpenAI's."""

    def response(self, answer: Answer, *_: str) -> dict[str, Any]:
        return _completion("text_completion", answer, {"text": answer.text})


def _completion(kind: str, answer: Answer, said: dict[str, Any]) -> dict[str, Any]:
    total = answer.prompt_tokens + answer.tokens
    usage = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.tokens, "total_tokens": total}
    head = {"id": f"answer-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": MODEL}
    choice = {"index": 0, "finish_reason": answer.end, "logprobs": None, **said}
    return {**head, "choices": [choice], "usage": usage}


class Messages(Chat):
    """Messages of Anthropic's."""

    def response(self, answer: Answer, *_: str) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if answer.text or not answer.calls:
            content.append({"type": "text", "text": answer.text})
        for call in map(parsed, answer.calls):
            name, given = call["function"]["name"], call["function"]["arguments"]
            given = given if isinstance(given, dict) else {"arguments": given}
            content.append({"type": "tool_use", "id": call["id"], "name": name, "input": given})
        head = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": MODEL}
        usage = {"input_tokens": answer.prompt_tokens, "output_tokens": answer.tokens}
        return {**head, "content": content, "stop_reason": ENDS[answer.end], "stop_sequence": None, "usage": usage}

    def events(self, answer: Answer, body: Mapping[str, Any]) -> Iterator[str]:
        whole = self.response(answer)
        yield _event({"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}})
        for index, block in enumerate(whole["content"]):
            begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": block.get("text")}
            if block["type"] == "tool_use":
                begun, delta = {**block, "input": {}}, {"type": "input_json_delta"}
                delta["partial_json"] = json.dumps(block["input"])
            yield _event({"type": "content_block_start", "index": index, "content_block": begun})
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
            yield _event({"type": "content_block_stop", "index": index})
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield _event({"type": "message_delta", "delta": ended, "usage": whole["usage"]})
        yield _event({"type": "message_stop"})


def _event(data: dict[str, Any]) -> str:
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n"


# By their paths. A client of Anthropic's adds /v1 to the URL that it is given, one of OpenAI's does not.
DIALECTS: dict[str, Chat] = {
    "chat/completions": Chat(),
    "completions": Completions(),
    "messages": Messages(),
    "v1/messages": Messages(),
}


class Endpoint:
    """Answers requests of sessions while an event loop runs, at a port that is free.

    Attributes:
        sessions: the `Session`s that go on, by their keys.
        url: below which the dialects are.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.sessions: dict[str, Any] = {}
        listening = socket.create_server((LOOPBACK, 0))
        self.url = f"http://{LOOPBACK}:{listening.getsockname()[1]}/v1"
        app = Starlette(routes=[Route("/v1/{path:path}", self._respond, methods=["GET", "POST"])])
        quiet: dict[str, Any] = {"log_config": None, "log_level": "critical", "access_log": False}
        config = uvicorn.Config(app, lifespan="off", ws="none", timeout_keep_alive=KEEP_ALIVE, **quiet)
        self._server: Any = uvicorn.Server(config)
        self._server.capture_signals = contextlib.nullcontext  # they are the run's
        self._serving = loop.create_task(self._server.serve(sockets=[listening]))

    async def stop(self) -> None:
        """Answer no more, and give the port back."""
        self._server.should_exit = self._server.force_exit = True
        await self._serving

    async def _respond(self, request: Request) -> Response:
        path, session = request.path_params["path"], None
        try:
            bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
            session = self.sessions.get(request.headers.get("x-api-key") or bearer)
            if session is None:
                raise Refusal(ENDED, "invalid_api_key", status=401)
            if path in MODELS:
                return JSONResponse(MODELS[path])
            if path not in DIALECTS or request.method != "POST":
                text = f"there is no {request.method} /v1/{path}, but {', '.join(DIALECTS)}"
                raise Refusal(f"{text}{OF_RESPONSES if path == 'responses' else ''}", "not_found", status=404)
            session.counts["requests"] += 1
            body = await request.json()
            answer = await session.answer(read_request(body))
            if body.get("stream"):
                return StreamingResponse(DIALECTS[path].events(answer, body), media_type="text/event-stream")
            return JSONResponse(DIALECTS[path].response(answer))
        except Refusal as error:
            refusal = error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            refusal = Refusal(f"the request has not the form of {path}: {error!r}")
        if session is not None:
            session.counts["refused"] += 1
        return JSONResponse(refusal.body(), refusal.status)
