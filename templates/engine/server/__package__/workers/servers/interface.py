# vextract:template - edit freely
"""What the engine asks of a kind of server."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

if TYPE_CHECKING:
    from .http import Connection


@dataclass(frozen=True)
class Sampling:
    """Says how to write one batch of responses.

    Attributes:
        temperature: 0 takes the likeliest token always.
        top_k: sample among so many of the likeliest tokens; -1: all.
        top_p: sample among the likeliest tokens up to this total probability.
        max_tokens: of each response.
        stop_token_ids: a response ends with any of these; none with ignore_eos.
        ignore_eos: go on after the end-of-sequence token.
        log_probs: whether the tokens' log-probabilities are wanted.
        min_p: sample among tokens with this share of the likeliest one's probability, or more.
        repetition_penalty: above 1 it makes tokens of prompt and response less likely.
    """

    temperature: float
    top_k: int
    top_p: float
    max_tokens: int
    stop_token_ids: tuple[int, ...]
    ignore_eos: bool
    log_probs: bool
    min_p: float = 0.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True)
class Request:
    """One prompt, as tokens; `seed` makes its response repeatable."""

    prompt: list[int]
    max_tokens: int
    seed: int | None


@dataclass(frozen=True)
class Response:
    """The tokens of a response, with the one that ended it, and their log-probabilities if they were asked for."""

    tokens: list[int]
    log_probs: list[float] | None


@dataclass(frozen=True)
class Rules:
    """Holds what every response must keep to, whatever was asked.

    Attributes:
        vocabulary: token ids are below it.
        ends: tokens that may end a response.
        spare: a response that is so many tokens shorter than asked for may still have ended by its length.
    """

    vocabulary: int
    ends: frozenset[int]
    spare: int = 0


class Server(Protocol):
    """One kind of server, at the other end of a connection."""

    name: str

    def __init__(self, connection: "Connection", config: Any, rules: Rules) -> None: ...

    @staticmethod
    def command(config: Any, port: int, max_model_len: int, gpus: int, adapter: Any = None) -> list[str]:
        """Return the command line that starts one, on so many GPUs; 0: on the CPU.

        With `adapter`, the settings of one (`peft.LoraConfig`), it has the model from disk, and room for that.
        """

    @staticmethod
    def environment() -> Mapping[str, str]:
        """Return the variables to set for it."""

    @staticmethod
    def healthy(connection: "Connection") -> bool:
        """Tell whether it answers, and can generate."""

    def check(self, model_config: Any, max_model_len: int) -> None:
        """Raise ConfigError if it serves another model, or if its weights cannot be replaced."""

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, ended: Callable[[int, Response], None] | None = None
    ) -> list[Response]:
        """Return the responses, in the order of the requests; `ended` is told each as it comes, in another thread."""

    async def write(self, request: Request, sampling: Sampling) -> Response:
        """Return one response; the connection's `go_on` tells meanwhile whether there is any use in waiting."""

    def update(self, weights: Iterable[tuple[str, torch.Tensor]], directory: str, version: str) -> None:
        """Replace its weights.

        Args:
            weights: all of them, by their names in a Hugging Face checkpoint, on the CPU.
            directory: where files can be left for the server.
            version: what it calls these weights from now on.
        """

    def weights_version(self) -> str | None:
        """Return the `version` of the last update that it took whole; None if servers of its age do not tell."""

    def sleep(self) -> None:
        """Let it give back GPU memory; it keeps its weights elsewhere."""

    def wake(self, part: str) -> None:
        """Let it take back GPU memory, for "weights" or for the "kv_cache"."""


class AdapterServer(Server, Protocol):
    """A kind of server that computes an adapter beside its model; the others get weights with it merged into them."""

    def take_adapter(self, directory: str, version: str) -> None:
        """Write all responses with the adapter in this directory, in peft's format, from now on."""
