# vextract:template - edit freely
"""OpenAI's dialect: chat completions and completions, as requests are read and answers are put."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .rendering import Message
from .session import MODEL, Answer, Asked, Refusal, tool_call

# Settings of a request that the policy does not follow: it writes as it is trained.
NOT_FOLLOWED = (
    "temperature top_p top_k min_p frequency_penalty presence_penalty repetition_penalty logit_bias seed logprobs "
    "response_format reasoning_effort thinking chat_template_kwargs"
).split()
Body = Mapping[str, Any]
ROLES = {"developer": "system", **{role: role for role in ("system", "user", "assistant", "tool")}}


def read_chat(body: Body) -> Asked:
    """Read a request for a chat completion.

    Raises:
        Refusal: it is none, or asks for what cannot be had.
    """
    asked = read_settings(body, "max_completion_tokens", "max_tokens")
    messages, tools, choice = body.get("messages"), body.get("tools") or [], body.get("tool_choice")
    if not isinstance(messages, list) or not messages:
        raise Refusal("messages is a list of at least one message", param="messages")
    if not all(isinstance(tool, dict) and tool.get("type") == "function" for tool in tools):
        raise Refusal("tools of another type than function cannot be had", param="tools")
    asked.messages = [_read_message(message, f"messages[{place}]") for place, message in enumerate(messages)]
    asked.tools = [] if choice == "none" else tools
    asked.ignored += ["tool_choice"] if choice not in (None, "auto", "none") else []
    return asked


def read_completion(body: Body) -> Asked:
    """Read a request for a completion of text, or of tokens.

    Raises:
        Refusal: it is none, or asks for what cannot be had.
    """
    asked, prompt = read_settings(body, "max_tokens"), body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    are_tokens = isinstance(prompt, list) and all(isinstance(each, int) for each in prompt)
    if not prompt or not (isinstance(prompt, str) or are_tokens):
        raise Refusal("prompt is one text, or one list of tokens", param="prompt")
    asked.prompt = prompt
    return asked


def read_settings(body: Body, *lengths: str) -> Asked:
    """Read what requests of all dialects have; `lengths`: what the limit of tokens is called.

    Raises:
        Refusal: the model is another, or a setting cannot be followed, and its answer would have another form.
    """
    if body.get("model") != MODEL:
        text = f"there is no model {body.get('model')!r}; the program gets its name as the argument model: {MODEL}"
        raise Refusal(text, "model_not_found", "model", 404)
    for name in ("n", "best_of", "echo", "suffix"):
        if body.get(name) not in (None, False, 1):
            raise Refusal(f"{name} cannot be had: each request gets one answer", param=name)
    most = next((body[name] for name in lengths if body.get(name) is not None), None)
    if most is not None and (not isinstance(most, int) or most < 1):
        raise Refusal(f"{lengths[0]} is {most!r}, and has to be a whole number from 1 on", param=lengths[0])
    stop = body.get("stop") or body.get("stop_sequences") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or not all(isinstance(each, str) for each in stop):
        raise Refusal("stop is a text, or a list of texts", param="stop")
    ignored = [name for name in NOT_FOLLOWED if body.get(name) not in (None, False)]
    return Asked(max_tokens=most, stop=[each for each in stop if each], ignored=ignored)


def text_of(content: Any, where: str) -> str:
    """Return the content of a message as text.

    Raises:
        Refusal: it has something else, such as an image.
    """
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise Refusal(f"{where} has content of type {kind}; the policy reads text", param="messages")
    return "".join(part["text"] for part in content) if isinstance(content, list) else str(content or "")


def chat_response(answer: Answer) -> dict[str, Any]:
    """Return an answer as a chat completion."""
    message = {"role": "assistant", "content": answer.text or (None if answer.calls else "")}
    calls = {"tool_calls": _calls(answer)} if answer.calls else {}
    choice = {"index": 0, "message": message | calls, "finish_reason": answer.end, "logprobs": None}
    return {**_head("chat.completion"), "choices": [choice], "usage": _usage(answer)}


def completion_response(answer: Answer) -> dict[str, Any]:
    """Return an answer as a completion."""
    choice = {"index": 0, "text": answer.text, "finish_reason": answer.end, "logprobs": None}
    return {**_head("text_completion"), "choices": [choice], "usage": _usage(answer)}


def chat_events(answer: Answer, body: Body) -> Iterator[str]:
    """Yield an answer as a stream of a chat completion: calls are read from the whole, so it was written whole."""
    calls = [{"index": place, **call} for place, call in enumerate(_calls(answer))]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": answer.text}]
    deltas += [{"tool_calls": calls}] if calls else []
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    yield from _events("chat.completion.chunk", [*choices, {"index": 0, "delta": {}, "finish_reason": answer.end}])
    yield from _last_events("chat.completion.chunk", answer, body)


def completion_events(answer: Answer, body: Body) -> Iterator[str]:
    """Yield an answer as a stream of a completion."""
    yield from _events("text_completion", [{"index": 0, "text": answer.text, "finish_reason": answer.end}])
    yield from _last_events("text_completion", answer, body)


def error_of(refusal: Refusal) -> dict[str, Any]:
    """Return a refusal as OpenAI words errors."""
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return {"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}}


def _read_message(message: Any, where: str) -> Message:
    role = ROLES.get(str(message.get("role"))) if isinstance(message, Mapping) else None
    if role is None:
        raise Refusal(f"{where} has no role of {', '.join(ROLES)}", param="messages")
    read: Message = {"role": role, "content": text_of(message.get("content"), where)}
    try:
        given = [(each["id"], each["function"]) for each in message.get("tool_calls") or ()]
        calls = [tool_call(name, function["name"], function["arguments"]) for name, function in given]
    except (KeyError, TypeError) as error:
        raise Refusal(f"{where} has a call without {error}", param="messages") from error
    kept = {name: message[name] for name in ("name", "tool_call_id") if message.get(name) is not None}
    return read | ({"tool_calls": calls} if calls else {}) | kept


def _calls(answer: Answer) -> list[dict[str, Any]]:
    pairs = ((call.id, {"name": call.name, "arguments": call.arguments}) for call in answer.calls)
    return [{"id": name, "type": "function", "function": function} for name, function in pairs]


def _head(kind: str) -> dict[str, Any]:
    return {"id": f"answer-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": MODEL}


def _usage(answer: Answer) -> dict[str, int]:
    total = answer.prompt_tokens + answer.tokens
    return {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.tokens, "total_tokens": total}


def _events(kind: str, choices: list[dict[str, Any]], **more: Any) -> Iterator[str]:
    head = _head(kind)
    for each in [[choice] for choice in choices] or [choices]:
        yield f"data: {json.dumps({**head, 'choices': each, **more})}\n\n"


def _last_events(kind: str, answer: Answer, body: Body) -> Iterator[str]:
    if (body.get("stream_options") or {}).get("include_usage"):
        yield from _events(kind, [], usage=_usage(answer))
    yield "data: [DONE]\n\n"
