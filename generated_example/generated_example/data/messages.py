# vextract:template base/__package__/data/messages.py - edit freely
"""The messages of a conversation, in one form whatever they were read from.

A column of a table gives each message the fields of all: null where a row had none. Chat templates ask whether a field
is there, so a null is taken for what it nearly always is, and left out.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..errors import DataError

HINT = 'write text, or [{"role": "user", "content": "..."}]'


def messages_of(given: Any, where: str) -> list[dict[str, Any]]:
    """Return the messages of a prompt or a conversation, each with text for its content.

    Args:
        given: text, which one message of the user says; or messages. Their content is text, or parts of text, which
            are put together as they are; it may be left out beside tool_calls.
        where: file and row, for messages.

    Raises:
        DataError: it is something else.
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    listed = without_nulls(plain(given))
    if not listed:
        raise DataError(f"{where}: there is no message", f"drop the row; or {HINT}")
    if not isinstance(listed, list) or not all(isinstance(message, dict) for message in listed):
        raise DataError(f"{where}: neither text nor a list of messages: {str(given)[:80]}", HINT)
    return [_message(message, f"{where}, message {number}") for number, message in enumerate(listed)]


def _message(message: dict[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(message.get("role"), str) or not message["role"]:
        raise DataError(f"{where}: it has no role: {str(message)[:80]}", HINT)
    content = message.get("content")
    if isinstance(content, str) or (content is None and message.get("tool_calls")):
        return message
    if not isinstance(content, list):
        found = "is missing, or null" if content is None else f"is {content!r:.60}, of type {type(content).__name__}"
        raise DataError(f"{where}: its content {found}", "write text; of an object or a number its JSON, in quotes")
    return {**message, "content": "".join(_text(part, where) for part in content)}


def _text(part: Any, where: str) -> str:
    text = part.get("text") if isinstance(part, dict) and part.keys() <= {"type", "text"} else part
    if isinstance(text, str):
        return text
    raise DataError(
        f"{where}: a part of its content is no text: {str(part)[:60]}",
        'prompts are text here: leave such rows out, or write {"type": "text", "text": "..."}',
    )


def as_it_stands(tokenizer: Any) -> Any:
    """Return a copy of a tokenizer without a chat template whose template says what messages say, and nothing else.

    It begins a text as the tokenizer does, if that is with a token of its own.
    """
    begins = tokenizer("?")["input_ids"][:1] == [tokenizer.bos_token_id]
    made = copy.copy(tokenizer)
    made.chat_template = "{{ bos_token }}" * begins + "{% for m in messages %}{{ m.content }}{% endfor %}"
    return made


def without_nulls(value: Any) -> Any:
    """Return a value of JSON without the fields that are null, however deep they are."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def plain(value: Any) -> Any:
    """Return a value with Python's own dictionaries, lists and numbers in place of others' and of tuples."""
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def check_characters(row: Any, where: str) -> None:
    """Refuse text that no file can hold: half of a pair of surrogates, which is no character.

    Raises:
        DataError: there is some.
    """
    for text in _texts(row):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{where}: {text[:60]!a} has half of a pair of surrogates at place {error.start}",
                "leave the row out, or write the whole character; in Python: text.encode(errors='replace').decode()",
            ) from error


def _texts(value: Any) -> Iterable[str]:
    """Yield each text in a value, names of fields as well."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(name)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
