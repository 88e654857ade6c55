# vextract:template - edit freely
"""OpenAI's dialect: chat completions and completions, as requests are read and answers are put."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .rendering import Message
from .session import MODEL, Answer, Asked, Refusal, tool_call

# Settings of a request that another sampling, or another way of writing, would be needed for. The trainer knows one.
NOT_FOLLOWED = (
    "temperature top_p top_k min_p frequency_penalty presence_penalty repetition_penalty logit_bias seed logprobs "
    "top_logprobs response_format reasoning_effort chat_template_kwargs"
).split()
ROLES = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
Body = Mapping[str, Any]


def read_chat(body: Body) -> Asked:
    """Read a request for a chat completion.

    Raises:
        Refusal: it is none, or asks for what cannot be had.
    """
    check(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal("messages is a list of at least one message", param="messages")
    tools = [each for each in body.get("tools") or () if isinstance(each, Mapping) and each.get("type") == "function"]
    if len(tools) < len(body.get("tools") or ()):
        raise Refusal("tools of another type than function cannot be had", param="tools")
    choice = body.get("tool_choice")
    return Asked(
        messages=[_read_message(message, place) for place, message in enumerate(messages)],
        tools=[] if choice == "none" else [dict(each) for each in tools],
        max_tokens=length_of(body.get("max_completion_tokens") or body.get("max_tokens")),
        stop=stops_of(body.get("stop")),
        ignored=[*ignored_of(body), *(["tool_choice"] if choice not in (None, "auto", "none") else [])],
    )


def read_completion(body: Body) -> Asked:
    """Read a request for a completion of text, or of tokens.

    Raises:
        Refusal: it is none, or asks for what cannot be had.
    """
    check(body)
    for name in ("echo", "suffix"):
        if body.get(name):
            raise Refusal(f"{name} cannot be had", param=name)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    are_tokens = isinstance(prompt, list) and all(isinstance(each, int) for each in prompt)
    if not prompt or not (isinstance(prompt, str) or are_tokens):
        raise Refusal("prompt is one text, or one list of tokens", param="prompt")
    return Asked(
        prompt=prompt,
        max_tokens=length_of(body.get("max_tokens")),
        stop=stops_of(body.get("stop")),
        ignored=ignored_of(body),
    )


def chat_response(answer: Answer) -> dict[str, Any]:
    """Return an answer as a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or (None if answer.calls else "")}
    if answer.calls:
        message["tool_calls"] = _calls(answer)
    choice = {"index": 0, "message": message, "finish_reason": answer.end, "logprobs": None}
    return {**_head("chat.completion"), "choices": [choice], "usage": _usage(answer)}


def completion_response(answer: Answer) -> dict[str, Any]:
    """Return an answer as a completion."""
    choice = {"index": 0, "text": answer.text, "finish_reason": answer.end, "logprobs": None}
    return {**_head("text_completion"), "choices": [choice], "usage": _usage(answer)}


def chat_events(answer: Answer, body: Body) -> Iterator[str]:
    """Yield an answer as a stream of a chat completion: it was written whole, since calls are read from the whole."""
    head = _head("chat.completion.chunk")
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    if answer.text:
        deltas.append(({"content": answer.text}, None))
    if answer.calls:
        deltas.append(({"tool_calls": [{"index": n, **call} for n, call in enumerate(_calls(answer))]}, None))
    deltas.append(({}, answer.end))
    for delta, end in deltas:
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": end, "logprobs": None}]})
    yield from _last_events(head, answer, body)


def completion_events(answer: Answer, body: Body) -> Iterator[str]:
    """Yield an answer as a stream of a completion."""
    head = _head("text_completion")
    yield _event({**head, "choices": [{"index": 0, "text": answer.text, "finish_reason": answer.end}]})
    yield from _last_events(head, answer, body)


def models() -> dict[str, Any]:
    """Return the list of models: the policy."""
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "vextract"}]}


def error_of(refusal: Refusal) -> dict[str, Any]:
    """Return a refusal as OpenAI words errors."""
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return {"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}}


# Parts of requests that the dialects share


def check(body: Body) -> None:
    """Check the model, and what no request can have.

    Raises:
        Refusal: the model is another, or several answers are asked for at once.
    """
    if body.get("model") != MODEL:
        text = f"there is no model {body.get('model')!r}; the program gets its name as the argument model: {MODEL}"
        raise Refusal(text, "model_not_found", "model", 404)
    for name in ("n", "best_of"):
        if body.get(name) not in (None, 1):
            raise Refusal(f"{name} is {body[name]}: each request gets one answer; send it again for another", param=name)


def length_of(value: Any) -> int | None:
    """Return a limit of tokens, if there is one."""
    if value is not None and (not isinstance(value, int) or value < 1):
        raise Refusal(f"max_tokens is {value!r}, and has to be a whole number from 1 on", param="max_tokens")
    return value


def stops_of(value: Any) -> list[str]:
    """Return the texts that end a turn."""
    found = [value] if isinstance(value, str) else list(value or ())
    if not all(isinstance(each, str) and each for each in found):
        raise Refusal("stop is a text, or a list of texts", param="stop")
    return found


def ignored_of(body: Body) -> list[str]:
    """Return which settings of a request are not followed."""
    return [name for name in NOT_FOLLOWED if body.get(name) not in (None, False)]


def text_of(content: Any, place: str) -> str:
    """Return the content of a message as text.

    Raises:
        Refusal: it has something else, such as an image.
    """
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise Refusal(f"{place} has content of type {kind!r}; the policy reads text", param="messages")
    return "".join(part["text"] for part in parts)


def _read_message(message: Any, place: int) -> Message:
    where = f"messages[{place}]"
    role = ROLES.get(str(message.get("role"))) if isinstance(message, Mapping) else None
    if role is None:
        raise Refusal(f"{where} has no role of {', '.join(ROLES)}", param="messages")
    read: Message = {"role": role, "content": text_of(message.get("content"), where)}
    try:
        calls = [(each["id"], each["function"]) for each in message.get("tool_calls") or ()]
        calls = [tool_call(name, function["name"], function["arguments"]) for name, function in calls]
    except (KeyError, TypeError) as error:
        raise Refusal(f"{where} has a call without {error}", param="messages") from error
    if calls:
        read["tool_calls"] = calls
    return read | {name: message[name] for name in ("name", "tool_call_id") if message.get(name) is not None}


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in answer.calls
    ]


def _head(kind: str) -> dict[str, Any]:
    return {"id": f"answer-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": MODEL}


def _usage(answer: Answer) -> dict[str, int]:
    total = answer.prompt_tokens + answer.tokens
    return {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.tokens, "total_tokens": total}


def _last_events(head: dict[str, Any], answer: Answer, body: Body) -> Iterator[str]:
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": _usage(answer)})
    yield "data: [DONE]\n\n"


def _event(data: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"
