# vextract:template - edit freely
"""Check what a server answers against what it was asked, before any of it becomes part of a batch."""

import json
import math
from dataclasses import dataclass
from typing import Any, TypeVar

from .interface import Request, Response, Rules, Sampling

T = TypeVar("T")
# Servers write -9999 for a probability of zero, and rounding can lift one of 1 a little above it.
LEAST_LOG_PROB, MOST_LOG_PROB = -1e4, 1e-3
SHOWN = 60  # characters of what was answered
KINDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


class BadAnswer(Exception):
    """An answer does not fit its request. The text says what is wrong with it."""


@dataclass(frozen=True)
class Written:
    """A response as a server tells of it, unchecked: its tokens, their log-probabilities, and what ended it."""

    tokens: Any
    log_probs: Any
    ended_by: Any


def parse(content: bytes) -> Any:
    """Parse JSON as the standard has it: without NaN and Infinity, which Python would take.

    Raises:
        BadAnswer: it is something else.
    """
    try:
        return json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        shown = _short(content.decode(errors="replace"))
        raise BadAnswer(f"it is not valid JSON ({_short(str(error))}): {shown}") from error


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
        raise BadAnswer(f"{what} is {_short(value)}, and not {KINDS[kind]}")
    return value


def check_equal(what: str, found: Any, expected: Any) -> None:
    """Raise BadAnswer if a value is not what it has to be."""
    if type(found) is not type(expected) or found != expected:
        raise BadAnswer(f"{what} is {_short(found)}, and has to be {_short(expected)}")


def in_order(choices: list[Any], count: int) -> list[Any]:
    """Return the responses to one prompt by their `index`, which has to be 0 to `count` - 1, each once.

    Raises:
        BadAnswer: there are more, fewer, or others.
    """
    if len(choices) != count:
        raise BadAnswer(f"it has {len(choices)} responses, and {count} were asked for")
    by_index = {field(choice, "index", int): choice for choice in choices}
    if sorted(by_index) != list(range(count)):
        raise BadAnswer(f"its responses have the indices {_short([choice['index'] for choice in choices])}")
    return [by_index[index] for index in range(count)]


def check_response(written: Written, request: Request, sampling: Sampling, rules: Rules) -> Response:
    """Return the response, if it can be one to this request.

    Raises:
        BadAnswer: it has no tokens, too many, or such as the model does not have; it ends where it should not, or
            goes on where it should end; or its log-probabilities are not those of its tokens.
    """
    tokens = of_kind(written.tokens, list, "the list of tokens")
    foreign = [token for token in tokens if type(token) is not int or not 0 <= token < rules.vocabulary]
    if foreign:
        raise BadAnswer(f"{_short(foreign[0])} is none of the policy's {rules.vocabulary} tokens")
    if not 1 <= len(tokens) <= request.max_tokens:
        raise BadAnswer(f"a response has {len(tokens)} tokens, and from 1 to {request.max_tokens} were asked for")
    _check_end(written.ended_by, tokens, request, sampling, rules)
    if not sampling.log_probs:
        return Response(tokens, None)
    log_probs = of_kind(written.log_probs, list, "the list of log-probabilities")
    if len(log_probs) != len(tokens):
        raise BadAnswer(f"a response has {len(tokens)} tokens and {len(log_probs)} log-probabilities")
    return Response(tokens, [_log_prob(value) for value in log_probs])


def _check_end(ended_by: Any, tokens: list[int], request: Request, sampling: Sampling, rules: Rules) -> None:
    if passed := [token for token in tokens[:-1] if token in sampling.stop_token_ids]:
        raise BadAnswer(f"a response goes on after token {passed[0]}, which ends one")
    if ended_by == "stop":
        if sampling.ignore_eos or tokens[-1] not in rules.ends.union(sampling.stop_token_ids):
            raise BadAnswer(f"a response was ended by token {tokens[-1]}, which ends none")
    elif ended_by == "length":
        if len(tokens) < request.max_tokens - rules.spare:
            raise BadAnswer(f"a response was cut after {len(tokens)} tokens, and {request.max_tokens} were asked for")
    else:
        raise BadAnswer(f"a response was ended by {_short(ended_by)}")


def _log_prob(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or not LEAST_LOG_PROB <= value <= MOST_LOG_PROB:
        raise BadAnswer(f"{_short(value)} is not a log-probability")
    return min(float(value), 0.0)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = "".join(character if character.isprintable() else "?" for character in text[: SHOWN + 1])
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
