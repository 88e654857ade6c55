# vextract:template - edit freely
"""Anthropic's dialect: messages, as requests are read and answers are put."""

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .chat import Body, check, ignored_of, length_of, stops_of, text_of
from .rendering import Message
from .session import MODEL, Answer, Asked, Refusal, tool_call

ENDS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def read_messages(body: Body) -> Asked:
    """Read a request of this dialect.

    Raises:
        Refusal: it is none, or asks for what cannot be had.
    """
    check(body)
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise Refusal("messages is a list of at least one message", param="messages")
    messages: list[Message] = []
    if body.get("system"):
        messages.append({"role": "system", "content": text_of(body["system"], "system")})
    for place, message in enumerate(given):
        messages += _read_message(message, f"messages[{place}]")
    choice = (body.get("tool_choice") or {}).get("type")
    tools = [] if choice == "none" else [_read_tool(tool) for tool in body.get("tools") or ()]
    return Asked(
        messages=messages,
        tools=tools,
        max_tokens=length_of(body.get("max_tokens")),
        stop=stops_of(body.get("stop_sequences")),
        ignored=[
            *ignored_of(body),
            *(["thinking"] if body.get("thinking") else []),
            *(["tool_choice"] if choice not in (None, "auto", "none") else []),
        ],
    )


def message_response(answer: Answer) -> dict[str, Any]:
    """Return an answer as a message."""
    content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text or not answer.calls else []
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)} for call in answer.calls
    ]
    usage = {"input_tokens": answer.prompt_tokens, "output_tokens": answer.tokens}
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": ENDS[answer.end],
        "stop_sequence": None,
        "usage": usage,
    }


def message_events(answer: Answer, body: Body) -> Iterator[str]:
    """Yield an answer as a stream of a message."""
    whole = message_response(answer)
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 0}}
    yield _event("message_start", message=start)
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event("content_block_start", index=index, content_block=empty)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage=whole["usage"])
    yield _event("message_stop")


def error_of(refusal: Refusal) -> dict[str, Any]:
    """Return a refusal as Anthropic words errors."""
    kinds = {401: "authentication_error", 404: "not_found_error", 500: "api_error"}
    kind = kinds.get(refusal.status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": f"{refusal.message} ({refusal.code})"}}


def _read_message(message: Any, where: str) -> list[Message]:
    """Return a message in OpenAI's form; results of tools are messages of their own there, before what else is said."""
    role = message.get("role") if isinstance(message, Mapping) else None
    if role not in ("user", "assistant"):
        raise Refusal(f"{where} has no role of user, assistant", param="messages")
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    results: list[Message] = []
    calls, said = [], []
    for block in blocks:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind == "tool_result":
            text = text_of(block.get("content"), where)
            results.append({"role": "tool", "content": text, "tool_call_id": block.get("tool_use_id")})
        elif kind == "tool_use":
            calls.append(tool_call(str(block.get("id")), str(block.get("name")), block.get("input") or {}))
        else:
            said.append(block)
    if said or calls or not results:
        own: Message = {"role": role, "content": text_of(said, where)}
        results.append({**own, "tool_calls": calls} if calls else own)
    return results


def _read_tool(tool: Any) -> dict[str, Any]:
    if not isinstance(tool, Mapping) or not isinstance(tool.get("input_schema"), Mapping):
        raise Refusal("tools that come without an input_schema cannot be had", param="tools")
    function = {"name": tool.get("name"), "description": tool.get("description") or ""}
    return {"type": "function", "function": {**function, "parameters": dict(tool["input_schema"])}}


def _input(arguments: str) -> dict[str, Any]:
    try:
        read = json.loads(arguments)
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"arguments": arguments}


def _event(kind: str, **data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"
