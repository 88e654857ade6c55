# vextract:template - edit freely
"""Anthropic's dialect: messages, as requests are read and answers are put."""

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .chat import Body, read_settings, text_of
from .rendering import Message, Tool
from .session import MODEL, Answer, Asked, Refusal, tool_call

ENDS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
ERRORS = {401: "authentication_error", 404: "not_found_error", 500: "api_error"}


def read_messages(body: Body) -> Asked:
    """Read a request of this dialect.

    Raises:
        Refusal: it is none, or asks for what cannot be had.
    """
    asked, messages = read_settings(body, "max_tokens"), body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal("messages is a list of at least one message", param="messages")
    system = [{"role": "system", "content": text_of(body["system"], "system")}] if body.get("system") else []
    read = (_read_message(message, f"messages[{place}]") for place, message in enumerate(messages))
    asked.messages = [*system, *(each for found in read for each in found)]
    choice = (body.get("tool_choice") or {}).get("type")
    asked.tools = [] if choice == "none" else [_read_tool(tool) for tool in body.get("tools") or ()]
    asked.ignored += ["tool_choice"] if choice not in (None, "auto", "none") else []
    return asked


def message_response(answer: Answer) -> dict[str, Any]:
    """Return an answer as a message."""
    content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text or not answer.calls else []
    for call in answer.calls:
        arguments = tool_call(*call)["function"]["arguments"]
        given = arguments if isinstance(arguments, dict) else {"arguments": arguments}
        content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
    head = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": MODEL}
    usage = {"input_tokens": answer.prompt_tokens, "output_tokens": answer.tokens}
    return {**head, "content": content, "stop_reason": ENDS[answer.end], "stop_sequence": None, "usage": usage}


def message_events(answer: Answer, body: Body) -> Iterator[str]:
    """Yield an answer as a stream of a message."""
    whole = message_response(answer)
    yield _event("message_start", message={**whole, "content": [], "stop_reason": None})
    for index, block in enumerate(whole["content"]):
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block.get("text")}
        if block["type"] == "tool_use":
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta"}
            delta["partial_json"] = json.dumps(block["input"])
        yield _event("content_block_start", index=index, content_block=empty)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event("message_delta", delta={"stop_reason": whole["stop_reason"]}, usage=whole["usage"])
    yield _event("message_stop")


def error_of(refusal: Refusal) -> dict[str, Any]:
    """Return a refusal as Anthropic words errors."""
    kind = ERRORS.get(refusal.status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": f"{refusal.message} ({refusal.code})"}}


def _read_message(message: Any, where: str) -> Iterator[Message]:
    """Yield a message in OpenAI's form, where each result of a tool is one of its own, before what else is said."""
    role = message.get("role") if isinstance(message, Mapping) else None
    if role not in ("user", "assistant"):
        raise Refusal(f"{where} has no role of user, assistant", param="messages")
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    calls, said, results = [], [], 0
    for block in blocks:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind == "tool_result":
            results += 1
            text = text_of(block.get("content"), where)
            yield {"role": "tool", "content": text, "tool_call_id": block.get("tool_use_id")}
        elif kind == "tool_use":
            calls.append(tool_call(str(block.get("id")), str(block.get("name")), block.get("input") or {}))
        else:
            said.append(block)
    if said or calls or not results:
        yield {"role": role, "content": text_of(said, where), **({"tool_calls": calls} if calls else {})}


def _read_tool(tool: Any) -> Tool:
    if not isinstance(tool, Mapping) or not isinstance(tool.get("input_schema"), Mapping):
        raise Refusal("tools without an input_schema cannot be had", param="tools")
    function = {"name": tool.get("name"), "description": tool.get("description") or ""}
    return {"type": "function", "function": {**function, "parameters": dict(tool["input_schema"])}}


def _event(kind: str, **data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"
