# vextract:template - edit freely
"""The dialects of requests: OpenAI's chat completions and completions, and Anthropic's messages.

Each is read into one form, and an answer is put as a response or as the events of a stream. A stream begins when the
turn is written: calls are read from the whole.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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


@dataclass
class Asked:
    """What a request asks.

    Attributes:
        messages: of a conversation; their content is text.
        prompt: of a completion instead: text, or tokens.
        tools: that the model may call.
        max_tokens: at most so many are written; None: as many as there is room for.
        stop: texts that end a turn.
        ignored: settings of the request that are not followed.
    """

    messages: list[Message] = field(default_factory=list)
    prompt: str | list[int] = ""
    tools: list[Tool] = field(default_factory=list)
    max_tokens: int | None = None
    stop: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


class Answer(NamedTuple):
    """The message that the policy has written, why it ended (stop, length, tool_calls), and numbers of tokens."""

    message: Message
    end: str
    prompt_tokens: int
    tokens: int


class Dialect(NamedTuple):
    """How requests are read, and answered: whole, as the events of a stream, and by an error."""

    read: Callable[[Body], Asked]
    response: Callable[[Answer], dict[str, Any]]
    events: Callable[[Answer, Body], Iterator[str]]
    error: Callable[[Refusal], dict[str, Any]]


def read_chat(body: Body) -> Asked:
    """Read a request for a chat completion, or for a message of Anthropic's.

    Raises:
        Refusal: it asks for what cannot be had.
        AttributeError, KeyError, TypeError: it has another form.
    """
    asked, messages, choice = _read_settings(body), body.get("messages"), body.get("tool_choice")
    if not isinstance(messages, list) or not messages:
        raise Refusal("messages is a list of at least one message", param="messages")
    if body.get("system"):
        messages = [{"role": "system", "content": body["system"]}, *messages]
    asked.messages = [each for message in messages for each in _read_message(message)]
    choice = choice.get("type") if isinstance(choice, Mapping) else choice
    asked.tools = [] if choice == "none" else [_read_tool(tool) for tool in body.get("tools") or ()]
    asked.ignored += ["tool_choice"] if choice not in (None, "auto", "none") else []
    return asked


def read_completion(body: Body) -> Asked:
    """Read a request for a completion of text, or of tokens.

    Raises:
        Refusal: it asks for what cannot be had.
    """
    asked, prompt = _read_settings(body), body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    are_tokens = isinstance(prompt, list) and all(isinstance(each, int) for each in prompt)
    if not prompt or not (isinstance(prompt, str) or are_tokens):
        raise Refusal("prompt is one text, or one list of tokens", param="prompt")
    asked.prompt = prompt
    return asked


def tool_call(name: str, function: str, arguments: Any) -> dict[str, Any]:
    """Return a call as messages have it, its arguments as a dictionary if they are one."""
    if isinstance(arguments, str):
        try:
            read = json.loads(arguments)
        except ValueError:
            read = None
        arguments = read if isinstance(read, dict) else arguments
    return {"id": name, "type": "function", "function": {"name": function, "arguments": arguments}}


def _read_settings(body: Body) -> Asked:
    if body.get("model") != MODEL:
        text = f"there is no model {body.get('model')!r}; the program gets its name as the argument model: {MODEL}"
        raise Refusal(text, "model_not_found", "model", 404)
    for name in ("n", "best_of", "echo", "suffix"):
        if body.get(name) not in (None, False, 1):
            raise Refusal(f"{name} cannot be had: each request gets one answer", param=name)
    name = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    most = body.get(name)
    if most is not None and (not isinstance(most, int) or most < 1):
        raise Refusal(f"{name} is {most!r}, and has to be a whole number from 1 on", param=name)
    stop = body.get("stop") or body.get("stop_sequences") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or not all(isinstance(each, str) for each in stop):
        raise Refusal("stop is a text, or a list of texts", param="stop")
    ignored = [name for name in NOT_FOLLOWED if body.get(name) not in (None, False)]
    return Asked(max_tokens=most, stop=[each for each in stop if each], ignored=ignored)


def _read_message(message: Any) -> Iterator[Message]:
    """Yield a message; what tools have said, which Anthropic's has within, comes as messages before it."""
    role = ROLES.get(message["role"])
    if role is None:
        raise Refusal(f"a message has the role {message['role']!r}, and none of {', '.join(ROLES)}", param="messages")
    functions = ((each["id"], each["function"]) for each in message.get("tool_calls") or ())
    calls = [tool_call(name, function["name"], function["arguments"]) for name, function in functions]
    blocks, said = _blocks_of(message.get("content")), []
    for block in blocks:
        if block.get("type") == "tool_result":
            text = _text_of(_blocks_of(block.get("content")))
            yield {"role": "tool", "content": text, "tool_call_id": block["tool_use_id"]}
        elif block.get("type") == "tool_use":
            calls.append(tool_call(block["id"], block["name"], block["input"]))
        else:
            said.append(block)
    if said or calls or not blocks:
        kept = {name: message[name] for name in ("name", "tool_call_id") if message.get(name) is not None}
        yield {"role": role, "content": _text_of(said), **({"tool_calls": calls} if calls else {}), **kept}


def _blocks_of(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def _text_of(blocks: list[Any]) -> str:
    for block in blocks:
        if not isinstance(block.get("text"), str):
            kind = block.get("type")
            raise Refusal(f"a message has content of type {kind}; the policy reads text", param="messages")
    return "".join(block["text"] for block in blocks)


def _read_tool(tool: Any) -> Tool:
    function = tool.get("function") if tool.get("type") == "function" else None
    if "input_schema" in tool:  # Anthropic's form
        text = tool.get("description") or ""
        function = {"name": tool.get("name"), "description": text, "parameters": tool["input_schema"]}
    if not function or not isinstance(function.get("name"), str):
        raise Refusal("tools of another type than function cannot be had, nor any without a name", param="tools")
    if not isinstance(function.get("parameters") or {}, dict):
        raise Refusal(f"the parameters of the tool {function['name']} are no schema", param="tools")
    return {"type": "function", "function": function}


def _chat_response(answer: Answer) -> dict[str, Any]:
    said, *calls = _deltas_of(answer)
    message = {**said, "content": said["content"] or (None if calls else "")}
    return _completion("chat.completion", answer, {"message": message | dict(*calls)})


def _chat_events(answer: Answer, body: Body) -> Iterator[str]:
    deltas = [{"delta": delta, "finish_reason": None} for delta in _deltas_of(answer)]
    return _chunks(_completion("chat.completion.chunk", answer, *deltas, {"delta": {}}), body)


def _deltas_of(answer: Answer) -> list[dict[str, Any]]:
    """Return the parts of a message as OpenAI has it: what is said, and calls, whose arguments are JSON."""
    calls = []
    for index, call in enumerate(answer.message.get("tool_calls", ())):
        given = call["function"]["arguments"]
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        calls.append({**call, "index": index, "function": {**call["function"], "arguments": text}})
    said = {"role": "assistant", "content": answer.message["content"]}
    return [said, {"tool_calls": calls}] if calls else [said]


def _text_response(answer: Answer) -> dict[str, Any]:
    return _completion("text_completion", answer, {"text": answer.message["content"]})


def _text_events(answer: Answer, body: Body) -> Iterator[str]:
    return _chunks(_text_response(answer), body)


def _completion(kind: str, answer: Answer, *choices: dict[str, Any]) -> dict[str, Any]:
    total = answer.prompt_tokens + answer.tokens
    usage = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.tokens, "total_tokens": total}
    head = {"id": f"answer-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": MODEL}
    common = {"index": 0, "finish_reason": answer.end, "logprobs": None}
    return {**head, "choices": [{**common, **choice} for choice in choices], "usage": usage}


def _chunks(whole: dict[str, Any], body: Body) -> Iterator[str]:
    """Yield a completion as a stream: each choice by itself, and the usage if the request asks for it."""
    for choice in whole["choices"]:
        yield _event({**whole, "choices": [choice], "usage": None})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**whole, "choices": []})
    yield "data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> str:
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n"


def _error(refusal: Refusal) -> dict[str, Any]:
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return {"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}}


def _message_response(answer: Answer) -> dict[str, Any]:
    text, calls = answer.message["content"], answer.message.get("tool_calls", ())
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text or not calls else []
    for call in calls:
        given = call["function"]["arguments"]
        given = given if isinstance(given, dict) else {"arguments": given}
        content.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": given})
    head = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": MODEL}
    usage = {"input_tokens": answer.prompt_tokens, "output_tokens": answer.tokens}
    return {**head, "content": content, "stop_reason": ENDS[answer.end], "stop_sequence": None, "usage": usage}


def _message_events(answer: Answer, body: Body) -> Iterator[str]:
    whole = _message_response(answer)
    yield _event({"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}})
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, delta = {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty, delta = {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event({"type": "content_block_start", "index": index, "content_block": {**block, **empty}})
        yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    yield _event({"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"]}, "usage": whole["usage"]})
    yield _event({"type": "message_stop"})


def _message_error(refusal: Refusal) -> dict[str, Any]:
    kind = ERRORS.get(refusal.status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": f"{refusal.message} ({refusal.code})"}}


CHAT = Dialect(read_chat, _chat_response, _chat_events, _error)
MESSAGES = Dialect(read_chat, _message_response, _message_events, _message_error)
DIALECTS = {
    "chat/completions": CHAT,
    "completions": Dialect(read_completion, _text_response, _text_events, _error),
    "messages": MESSAGES,
    "v1/messages": MESSAGES,  # a client of Anthropic's adds /v1 to what it is given, one of OpenAI's does not
}
