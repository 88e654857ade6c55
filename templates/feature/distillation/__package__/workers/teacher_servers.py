# vextract:template - edit freely
"""Find a teacher on its servers, and check before training that they can say what is asked."""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from ..errors import ConfigError
from ..settings.teacher_models import MODELS, SECTION
from .rollout_interface import RolloutError
from .served_teacher import connect
from .servers.http import MEGABYTE, Ask, Connection
from .servers.teacher_kinds import ServedModel, served_models, text_of

CHECK_SECONDS = 120.0
# Tokens whose text a server is asked for at a time, to compare vocabularies.
AT_A_TIME = 4096
TEXT_BYTES = 1024  # that the text of one may have
# What a kind of server has to be told besides, to write tokens as they are.
AS_THEY_ARE = {"sglang": {"skip_special_tokens": False}}


def served_by(
    config: Any, name: str, urls: Sequence[str], tokenizer: Any, size: int, topk: int | None
) -> list[ServedModel]:
    """Find a teacher on its servers, and check that it can say what is asked.

    Args:
        config: the whole config.
        name: of the teacher.
        urls: of its servers.
        tokenizer: of the policy.
        size: how many tokens the policy's model has.
        topk: see `ServedTeacher`.

    Raises:
        ConfigError: a server does not answer, has another model or vocabulary, or does not take or say as much.
    """
    found = []
    for url in urls:
        with closing(connect(config, url)) as connection:
            model = _model_of(config, name, connection)
            _check_vocabulary(connection, model, tokenizer)
            _check_answers(connection, model, size, topk)
        found.append(model)
    names = sorted({model.name for model in found})
    if len(names) > 1:
        raise ConfigError(
            f"the servers of {SECTION}.url have different models: {', '.join(names)}",
            f"give those of one model, or say which is the teacher: {MODELS}.{name}.model_path={names[0]}",
        )
    return found


def _model_of(config: Any, name: str, connection: Connection) -> ServedModel:
    """Return the teacher as a server has it: the model that the config names, or the first one if it names none."""
    path, url = config.distillation.teacher_models[name].get("model_path"), connection.url
    try:
        models = connection.get("/v1/models", partial(served_models, url), CHECK_SECONDS)
    except RolloutError as error:
        raise ConfigError(f"no teacher answers at {url}: {error.parts[0]}", error.parts[1]) from error
    model = next((model for model in models if path in (None, model.name, model.root)), None)
    if model is None:
        raise ConfigError(
            f"the server at {url} has another model than the teacher {path}: {models[0].name}",
            f"{MODELS}.{name}.model_path={models[0].name}, or null for whatever it has; or start it with that model",
        )
    needed = config.data.max_prompt_length + config.data.max_response_length + 1
    if model.room is not None and model.room < needed:
        option = "--context-length" if model.by == "sglang" else "--max-model-len"
        raise ConfigError(
            f"the server at {url} takes {model.room} tokens, and prompt and response, with the one token that it has "
            f"to write, may have {needed}",
            f"start it with {option} {needed}",
        )
    return model


def _check_vocabulary(connection: Connection, model: ServedModel, tokenizer: Any) -> None:
    """Raise ConfigError if a token of the policy has another text on the server."""
    known = sorted(set(tokenizer.get_vocab().values()))

    def theirs(tokens: list[int]) -> str:
        body = {"model": model.name, "tokens": tokens, **AS_THEY_ARE.get(model.by, {})}
        ask = Ask(lambda _: body, lambda answer, _: text_of(answer), MEGABYTE + TEXT_BYTES * len(tokens))
        return connection.ask("/detokenize", ask, CHECK_SECONDS)

    def ours(tokens: list[int]) -> str:
        text: str = tokenizer.decode(tokens, skip_special_tokens=False)
        return text

    try:
        for start in range(0, len(known), AT_A_TIME):
            tokens = known[start : start + AT_A_TIME]
            if _same(theirs(tokens), ours(tokens)):
                continue
            token = _first_other(tokens, lambda part: _same(theirs(part), ours(part)))
            raise ConfigError(
                f"the teacher at {model.url} has another vocabulary than the policy: token {token} is "
                f"{theirs([token])!r} there, and {ours([token])!r} here",
                "the teacher has to be a model of the policy's family, with the same tokenizer",
            )
    except RolloutError as error:
        raise ConfigError(
            f"the vocabulary of the teacher at {model.url} cannot be compared with the policy's: {error.parts[0]}",
            "it has to be a model of the policy's family, whose server has its tokenizer and answers /detokenize",
        ) from error


def _same(one: str, other: str) -> bool:
    """Compare texts but for what versions of a tokenizer write otherwise: spaces, and bytes that are no characters."""
    return "".join(one.replace("\ufffd", "").split()) == "".join(other.replace("\ufffd", "").split())


def _first_other(tokens: list[int], same: Callable[[list[int]], bool]) -> int:
    """Return the first token for which two texts differ, by halves."""
    while len(tokens) > 1:
        half = tokens[: len(tokens) // 2]
        tokens = tokens[len(half) :] if same(half) else half
    return tokens[0]


def _check_answers(connection: Connection, model: ServedModel, size: int, topk: int | None) -> None:
    """Raise ConfigError if a server does not know all of the policy's tokens, or does not name as many as are asked."""
    path = "/generate" if model.by == "sglang" else "/v1/completions"
    last = [size - 1] * 2
    try:
        connection.ask(path, model.ask(last, 1, None), CHECK_SECONDS)
    except RolloutError as error:
        raise ConfigError(
            f"the teacher at {model.url} does not say how likely token {size - 1} is, which the policy may write: "
            f"{error.parts[0]}",
            "it has to be a model of the policy's family, on vLLM's server or SGLang's",
        ) from error
    if topk is None:
        return
    try:
        connection.ask(path, model.ask(last, 1, topk), CHECK_SECONDS)
    except RolloutError as error:
        raise ConfigError(
            f"the teacher at {model.url} does not name its {topk} likeliest tokens: {error.parts[0]}",
            f"start vLLM with --max-logprobs {topk} (its default is 20, and -1 is no limit), or lower "
            "distillation.distillation_loss.topk",
        ) from error
