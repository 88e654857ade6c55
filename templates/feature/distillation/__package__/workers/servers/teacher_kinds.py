# vextract:template - edit freely
"""What kinds of servers are asked how likely tokens are, and how their answers are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .answers import BadAnswer, check_equal, field, in_order, log_prob, of_kind, short
from .http import MEGABYTE, Ask

# What an answer may have for a token that it names: its number, its text with escapes, its log-probability.
NAMED_BYTES = 512


@dataclass(frozen=True)
class Likely:
    """The tokens that a teacher names at each place of a response, the likeliest first.

    Attributes:
        log_probs: at temperature 1, (places, k) float32.
        tokens: (places, k) int64.
    """

    log_probs: torch.Tensor
    tokens: torch.Tensor


@dataclass(frozen=True)
class ServedModel:
    """What a server has.

    Attributes:
        url: of the server.
        name: what it calls the model.
        root: where it has it from; None if it does not tell.
        room: tokens that a request may have together with what is written to it; None if it does not tell.
        by: the program that serves it.
    """

    url: str
    name: str
    root: str | None
    room: int | None
    by: str

    def ask(self, tokens: Sequence[int], places: int, topk: int | None) -> Ask[Likely]:
        """Return the request for what the model says of the last tokens of a sequence.

        Args:
            tokens: the sequence.
            places: how many tokens at its end are asked about; at most all but the first.
            topk: name so many of the likeliest at each place; None: those that stand there.
        """
        most = MEGABYTE + NAMED_BYTES * len(tokens) * ((topk or 0) + 2)
        asked = _of_sglang if self.by == "sglang" else _of_vllm
        return asked(self, list(tokens), places, topk, most)


def served_models(url: str, answer: Any) -> list[ServedModel]:
    """Read the answer to /v1/models."""
    models = [of_kind(model, dict, "a model") for model in field(answer, "data", list)]
    if not models:
        raise BadAnswer("it serves no model")
    return [
        ServedModel(
            url,
            field(model, "id", str),
            None if model.get("root") is None else field(model, "root", str),
            None if model.get("max_model_len") is None else field(model, "max_model_len", int),
            str(model.get("owned_by")),
        )
        for model in models
    ]


def text_of(answer: Any) -> str:
    """Read the answer to /detokenize."""
    return field(answer, "text" if "text" in of_kind(answer, dict, "what it writes") else "prompt", str)


def _of_vllm(model: ServedModel, sequence: list[int], places: int, topk: int | None, most: int) -> Ask[Likely]:
    # One token has to be written; nothing is made of it. What stands in a prompt is not sampled: its probabilities are
    # those at temperature 1, whatever a request says.
    body = {
        "model": model.name,
        "prompt": sequence,
        "max_tokens": 1,
        "temperature": 1.0,
        "prompt_logprobs": topk or 0,
    }

    def read(answer: Any, name: str) -> Likely:
        if name not in field(answer, "id", str):
            raise BadAnswer(f"its id is {short(answer['id'])}, which is that of another request than {name}")
        check_equal("its model", field(answer, "model", str), model.name)
        (choice,) = in_order(field(answer, "choices", list), 1)
        told = field(choice, "prompt_logprobs", list)
        check_equal("the number of tokens that it tells of", len(told), len(sequence))
        pairs = zip(told[-places:], sequence[-places:], strict=True)
        return _likely([_named_by_vllm(place, token, topk) for place, token in pairs])

    return Ask(lambda _: body, read, most, model.url)


def _named_by_vllm(place: Any, token: int, topk: int | None) -> list[tuple[float, int]]:
    """Return what is named at a place, with its log-probability: the token that stands there, or the likeliest ones."""
    place = of_kind(place, dict, "what it tells of a token")
    if topk is None:
        return [(_log_prob(place.get(str(token)), token), token)]
    ranked = {of_kind(entry, dict, "a token").get("rank"): number for number, entry in place.items()}
    missing = next((rank for rank in range(1, topk + 1) if rank not in ranked), None)
    if missing is not None:
        raise BadAnswer(f"it names no token of rank {missing} of {topk}")
    numbers = [_number(ranked[rank]) for rank in range(1, topk + 1)]
    return [(_log_prob(place[str(number)], number), number) for number in numbers]


def _log_prob(entry: Any, token: int) -> float:
    if entry is None:
        raise BadAnswer(f"it does not say how likely token {token} is")
    return log_prob(of_kind(entry, dict, "what it tells of a token").get("logprob"))


def _number(token: Any) -> int:
    if not (isinstance(token, str) and token.isascii() and token.isdigit()):
        raise BadAnswer(f"{short(token)} is not the number of a token")
    return int(token)


def _of_sglang(model: ServedModel, sequence: list[int], places: int, topk: int | None, most: int) -> Ask[Likely]:
    """Ask by SGLang's own /generate: its OpenAI API names tokens by their texts, which several may have."""
    body = {
        "input_ids": sequence,
        "sampling_params": {"max_new_tokens": 1, "temperature": 1.0},
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": topk or 0,
    }

    def read(answer: Any, name: str) -> Likely:
        meta_info = field(answer, "meta_info", dict)
        check_equal("the id of the request that it answers", field(meta_info, "id", str), name)
        told = field(meta_info, "input_token_logprobs", list)
        check_equal("the number of tokens that it tells of", len(told), len(sequence))
        pairs = [_pair(entry) for entry in told[-places:]]
        check_equal("the list of tokens that it tells of", [token for _, token in pairs], sequence[-places:])
        if topk is None:
            return _likely([[pair] for pair in pairs])
        likeliest = field(meta_info, "input_top_logprobs", list)
        check_equal("the number of places whose likeliest tokens it names", len(likeliest), len(sequence))
        found = [[_pair(entry) for entry in of_kind(place, list, "a place")] for place in likeliest[-places:]]
        wrong = next((len(place) for place in found if len(place) != topk), topk)
        check_equal("the number of likeliest tokens", wrong, topk)
        return _likely([sorted(place, key=lambda pair: -pair[0]) for place in found])

    return Ask(lambda name: {**body, "rid": name}, read, most, model.url)


def _pair(entry: Any) -> tuple[float, int]:
    """Return how likely a token is, and its number."""
    if len(of_kind(entry, list, "a token beside its log-probability")) < 2:
        raise BadAnswer("a token has no log-probability beside it")
    return log_prob(entry[0]), of_kind(entry[1], int, "a token")


def _likely(places: list[list[tuple[float, int]]]) -> Likely:
    log_probs = torch.tensor([[value for value, _ in place] for place in places], dtype=torch.float32)
    return Likely(log_probs, torch.tensor([[token for _, token in place] for place in places], dtype=torch.int64))
