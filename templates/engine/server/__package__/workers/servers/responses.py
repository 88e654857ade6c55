# vextract:template - edit freely
"""Check what a server has written against what it was asked, before any of it becomes part of a batch."""

from dataclasses import dataclass
from typing import Any

from .answers import BadAnswer, log_prob, of_kind, short
from .interface import Request, Response, Rules, Sampling


@dataclass(frozen=True)
class Written:
    """A response as a server tells of it, unchecked: its tokens, their log-probabilities, and what ended it."""

    tokens: Any
    log_probs: Any
    ended_by: Any


def check_response(written: Written, request: Request, sampling: Sampling, rules: Rules) -> Response:
    """Return the response, if it can be one to this request.

    Raises:
        BadAnswer: it has no tokens, too many, or such as the model does not have; it ends where it should not, or
            goes on where it should end; or its log-probabilities are not those of its tokens.
    """
    tokens = of_kind(written.tokens, list, "the list of tokens")
    foreign = [token for token in tokens if type(token) is not int or not 0 <= token < rules.vocabulary]
    if foreign:
        raise BadAnswer(f"{short(foreign[0])} is none of the policy's {rules.vocabulary} tokens")
    if not 1 <= len(tokens) <= request.max_tokens:
        raise BadAnswer(f"a response has {len(tokens)} tokens, and from 1 to {request.max_tokens} were asked for")
    _check_end(written.ended_by, tokens, request, sampling, rules)
    if not sampling.log_probs:
        return Response(tokens, None)
    log_probs = of_kind(written.log_probs, list, "the list of log-probabilities")
    if len(log_probs) != len(tokens):
        raise BadAnswer(f"a response has {len(tokens)} tokens and {len(log_probs)} log-probabilities")
    return Response(tokens, [log_prob(value) for value in log_probs])


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
        raise BadAnswer(f"a response was ended by {short(ended_by)}")
