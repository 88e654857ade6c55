# vextract:template - edit freely
"""The dialects of requests: OpenAI's chat completions and completions, and Anthropic's messages.

Each is read into one form, and an answer is put as a response or as the events of a stream. A stream begins when the
turn is written: calls are read from the whole.
"""

import contextlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

# A message, and a tool, in OpenAI's form; but calls of messages have dictionaries as arguments, where they can.
Message = dict[str, Any]
Tool = dict[str, Any]
Body = Mapping[str, Any]

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


class Refusal(Exception):
    """A request cannot be answered; with a status of HTTP, and OpenAI's code where it has one."""

    def __init__(self, message: str, code: str = "invalid_value", param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message, self.code, self.param, self.status = message, code, param, status


def ended() -> Refusal:
    """Return the refusal of a key that opens no session, or none any more."""
    text = "this key is of no session that goes on; each call of the program gets one, which ends with it"
    return Refusal(text, "invalid_api_key", status=401)


@dataclass
class Asked:
    """What a request asks."""

    messages: list[Message]  # of a conversation; their content is text
    prompt: str | list[int]  # of a completion instead: text, or tokens
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


def read_request(body: Body, asks: str) -> Asked:
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
    ignored += ["parallel_tool_calls=false"] if body.get("parallel_tool_calls") is False else []
    asked = Asked([], "", [], most, [each for each in stop if each], ignored)
    if asks == "prompt":
        prompt = body["prompt"]
        if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
            prompt = prompt[0]
        if not prompt or not isinstance(prompt, str) and not all(isinstance(each, int) for each in prompt):
            raise Refusal("prompt is one text, or one list of tokens", param="prompt")
        asked.prompt = prompt
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
    if "input_schema" in tool:  # Anthropic's form
        text = tool.get("description") or ""
        function = {"name": tool["name"], "description": text, "parameters": tool["input_schema"]}
    elif tool["type"] != "function":
        raise Refusal("tools of another type than function cannot be had", param="tools")
    else:
        function = tool["function"]
    properties = (function.get("parameters") or {}).get("properties") or {}
    if not isinstance(function["name"], str) or not isinstance(properties, dict):
        raise Refusal("a tool has a name, and a schema of its parameters", param="tools")
    return {"type": "function", "function": function}


class Chat:
    """How chat completions of OpenAI's are answered: whole, as a stream, and with an error."""

    asks = "messages"

    def response(self, answer: Answer) -> dict[str, Any]:
        """Return an answer as a whole."""
        calls = {"tool_calls": answer.calls} if answer.calls else {}
        message = {"role": "assistant", "content": answer.text or (None if calls else ""), **calls}
        return _completion("chat.completion", answer, {"message": message})

    def events(self, answer: Answer, body: Body) -> Iterator[str]:
        """Yield an answer as a stream."""
        whole = self._piece(answer)
        yield _event({**whole, "usage": None})
        if (body.get("stream_options") or {}).get("include_usage"):
            yield _event({**whole, "choices": []})
        yield "data: [DONE]\n\n"

    def error(self, refusal: Refusal) -> dict[str, Any]:
        """Return a refusal."""
        kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
        return {"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}}

    def _piece(self, answer: Answer) -> dict[str, Any]:
        """Return an answer as one piece of a stream."""
        calls = [{"index": index, **call} for index, call in enumerate(answer.calls)]
        delta = {"role": "assistant", "content": answer.text, **({"tool_calls": calls} if calls else {})}
        return _completion("chat.completion.chunk", answer, {"delta": delta})


class Completions(Chat):
    """Completions of OpenAI's."""

    asks = "prompt"

    def response(self, answer: Answer) -> dict[str, Any]:
        return _completion("text_completion", answer, {"text": answer.text})

    _piece = response


def _completion(kind: str, answer: Answer, said: dict[str, Any]) -> dict[str, Any]:
    total = answer.prompt_tokens + answer.tokens
    usage = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.tokens, "total_tokens": total}
    head = {"id": f"answer-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": MODEL}
    choice = {"index": 0, "finish_reason": answer.end, "logprobs": None, **said}
    return {**head, "choices": [choice], "usage": usage}


class Messages(Chat):
    """Messages of Anthropic's."""

    def response(self, answer: Answer) -> dict[str, Any]:
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

    def events(self, answer: Answer, body: Body) -> Iterator[str]:
        whole = self.response(answer)
        yield _event({"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}})
        for index, block in enumerate(whole["content"]):
            delta, begun = {"type": "text_delta", "text": block.get("text")}, {**block, "text": ""}
            if block["type"] == "tool_use":
                delta, begun = (
                    {"type": "input_json_delta", "partial_json": json.dumps(block["input"])},
                    {**block, "input": {}},
                )
            yield _event({"type": "content_block_start", "index": index, "content_block": begun})
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
            yield _event({"type": "content_block_stop", "index": index})
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield _event({"type": "message_delta", "delta": ended, "usage": whole["usage"]})
        yield _event({"type": "message_stop"})

    def error(self, refusal: Refusal) -> dict[str, Any]:
        kind = ERRORS.get(refusal.status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": f"{refusal.message} ({refusal.code})"}}


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
