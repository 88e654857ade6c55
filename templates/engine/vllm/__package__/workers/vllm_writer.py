# vextract:template - edit freely
"""Turns of episodes by the vLLM of this process: each begins as soon as it is asked for, beside those under way."""

import asyncio
import contextlib
import itertools
from collections.abc import Collection, Iterator
from typing import Any

import torch
from vllm.lora.request import LoRARequest
from vllm.sampling_params import RequestOutputKind, SamplingParams

from ..shims.device import computing_on
from .rollout_interface import RolloutError
from .servers.assembly import counted
from .vllm_setup import explain_failure

_numbers = itertools.count()


class VllmWriter:
    """Writes turns of episodes by requests to a running engine.

    Args:
        engine: vLLM's `LLMEngine`.
        params: how tokens are drawn.
        device: where it computes.
        max_model_len: tokens of a context and what follows it, at most.
        with_log_probs: whether the log-probabilities of tokens are wanted.
        eos: the tokens that end a turn.
        adapter: that turns are written with; None: the model alone.
    """

    def __init__(
        self,
        engine: Any,
        params: SamplingParams,
        device: torch.device,
        max_model_len: int,
        with_log_probs: bool,
        eos: Collection[int],
        adapter: LoRARequest | None,
    ) -> None:
        self.engine = engine
        self.params = params
        self.device = device
        self.max_model_len = max_model_len
        self.with_log_probs = with_log_probs
        self.eos = eos
        self.adapter = adapter
        self._asked: dict[str, asyncio.Future[Any]] = {}
        self._steps: asyncio.Task[None] | None = None

    async def write(
        self, episode: int, context: list[int], max_tokens: int, seed: int
    ) -> tuple[list[int], list[float] | None]:
        """Return the tokens that the model writes next, and their log-probabilities if they are wanted."""
        params = self.params.clone()
        params.n, params.output_kind = 1, RequestOutputKind.FINAL_ONLY
        params.max_tokens = min(max_tokens, self.max_model_len - len(context))
        if params.temperature > 0:
            params.seed = seed
        name = f"turn-{next(_numbers)}"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        with self._explained():
            self.engine.add_request(name, {"prompt_token_ids": context}, params, lora_request=self.adapter)
        self._asked[name] = answer
        if self._steps is None or self._steps.done():
            self._steps = asyncio.ensure_future(self._run())
        try:
            completion = (await answer).outputs[0]
        finally:
            if answer.cancelled() and self._asked.pop(name, None) is not None:  # nobody waits for it any more
                self.engine.abort_request([name])
        tokens = list(completion.token_ids)
        tokens = tokens[: counted(tokens, self.eos)]
        if not self.with_log_probs:
            return tokens, None
        return tokens, [entry[token].logprob for token, entry in zip(tokens, completion.logprobs, strict=False)]

    def leave(self) -> None:
        """Do nothing: no turn waits for another."""

    def check(self) -> None:
        """Do nothing: what the engine raises is raised where a turn is waited for."""

    def close(self) -> None:
        """Drop what nobody waits for any more."""
        if self._asked:
            with contextlib.suppress(Exception):  # what has failed may not be able to do that either
                self.engine.abort_request([*self._asked])
        self._asked.clear()

    async def _run(self) -> None:
        """Compute until nothing is asked any more. Between two steps whoever has an answer goes on."""
        while self._asked:
            try:
                with self._explained():
                    outputs = self.engine.step()
            except RolloutError as error:
                for answer in self._asked.values():
                    if not answer.done():
                        answer.set_exception(error)
                return
            for output in outputs:
                if output.finished and not (waiting := self._asked.pop(output.request_id)).done():
                    waiting.set_result(output)
            await asyncio.sleep(0)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with computing_on(self.device):
                yield
        except Exception as error:
            raise RolloutError(*explain_failure(error)) from error
