# vextract:template - edit freely
"""Check what a server answers against what it was asked, before any of it becomes part of a batch."""

import json
import math
from typing import Any, TypeVar

T = TypeVar("T")
# Servers write -9999 for a probability of zero, and rounding can lift one of 1 a little above it.
LEAST_LOG_PROB, MOST_LOG_PROB = -1e4, 1e-3
SHOWN = 60  # characters of what was answered
KINDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


class BadAnswer(Exception):
    """An answer does not fit its request. The text says what is wrong with it."""


def parse(content: bytes) -> Any:
    """Parse JSON as the standard has it: without NaN and Infinity, which Python would take.

    Raises:
        BadAnswer: it is something else.
    """
    try:
        return json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        shown = short(content.decode(errors="replace"))
        raise BadAnswer(f"it is not valid JSON ({short(str(error))}): {shown}") from error


def field(answer: Any, name: str, kind: type[T]) -> T:
    """Return the value of a field of exactly this type.

    Raises:
        BadAnswer: there is none.
    """
    value = of_kind(answer, dict, "what stands there").get(name)
    if value is None:
        raise BadAnswer(f"it has no {name}")
    return of_kind(value, kind, name)


def of_kind(value: Any, kind: type[T], what: str) -> T:
    """Return the value, if it is of exactly this type; `what` names it in the error.

    Raises:
        BadAnswer: it is not.
    """
    if type(value) is not kind:
        raise BadAnswer(f"{what} is {short(value)}, and not {KINDS[kind]}")
    return value


def check_equal(what: str, found: Any, expected: Any) -> None:
    """Raise BadAnswer if a value is not what it has to be."""
    if type(found) is not type(expected) or found != expected:
        raise BadAnswer(f"{what} is {short(found)}, and has to be {short(expected)}")


def in_order(choices: list[Any], count: int) -> list[Any]:
    """Return the responses to one prompt by their `index`, which has to be 0 to `count` - 1, each once.

    Raises:
        BadAnswer: there are more, fewer, or others.
    """
    if len(choices) != count:
        raise BadAnswer(f"it has {len(choices)} responses, and {count} were asked for")
    by_index = {field(choice, "index", int): choice for choice in choices}
    if sorted(by_index) != list(range(count)):
        raise BadAnswer(f"its responses have the indices {short([choice['index'] for choice in choices])}")
    return [by_index[index] for index in range(count)]


def log_prob(value: Any) -> float:
    """Return a log-probability.

    Raises:
        BadAnswer: the value is none.
    """
    if type(value) not in (int, float) or not math.isfinite(value) or not LEAST_LOG_PROB <= value <= MOST_LOG_PROB:
        raise BadAnswer(f"{short(value)} is not a log-probability")
    return min(float(value), 0.0)


def short(value: Any) -> str:
    """Return what was answered as an error can show it."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(character if character.isprintable() else "?" for character in text[: SHOWN + 1])
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")
