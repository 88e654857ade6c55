# vextract:template - edit freely
"""What writes turns, and the turns of many episodes written together for an engine that writes whole batches."""

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..training.batches import objects
from ..vendored.protocol import DataProto

# The tokens that the model has written, and their log-probabilities if the engine gives them.
Turn = tuple[list[int], list[float] | None]


class Writer(Protocol):
    """Writes turns of episodes, each for itself.

    An engine that can begin to write while it writes has a method `writer(meta_info)`: a context with a `Writer` that
    samples as `meta_info` says, or None where it cannot. It is entered within `session`.
    """

    async def write(self, episode: int, context: list[int], max_tokens: int, seed: int) -> Turn:
        """Return what the model writes next in an episode.

        Args:
            episode: its place among those that are played.
            context: its tokens so far.
            max_tokens: at most so many are written.
            seed: what is drawn depends on it, and not on what else is being written.

        Raises:
            RolloutError: the engine cannot go on.
        """

    def leave(self) -> None:
        """Hear that an episode has ended."""

    def check(self) -> None:
        """Raise what there is to know while turns are waited for: the engine has ended, or the run is to stop."""


@dataclass(frozen=True)
class _Waiting:
    context: list[int]
    max_tokens: int
    turn: "asyncio.Future[Turn]"


class TurnByTurn:
    """Has an engine write a turn of all episodes that go on, as soon as all of them wait for theirs.

    Which rows are written together, and in which order, depends on no clock: the same episodes give the same tokens.

    Args:
        engine: writes whole batches.
        pad_token_id: stands before contexts that are shorter than others.
        meta_info: of the prompts.
        episodes: how many there are.
    """

    def __init__(self, engine: Any, pad_token_id: int, meta_info: dict[str, Any], episodes: int) -> None:
        self.engine = engine
        self.pad_token_id = pad_token_id
        self.meta_info = meta_info
        self.going_on = episodes
        self.turns = 0
        self.waiting: dict[int, _Waiting] = {}

    async def write(self, episode: int, context: list[int], max_tokens: int, seed: int) -> Turn:
        """Return what the model writes next in an episode: its tokens and their log-probabilities, if there are any.

        Args:
            episode: its place among all.
            context: the tokens so far.
            max_tokens: at most so many are written.
            seed: not used; what an engine draws for a batch depends on nothing but the batches before.
        """
        turn: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self.waiting[episode] = _Waiting(context, max_tokens, turn)
        self._write_if_all_wait()
        return await turn

    def leave(self) -> None:
        """Say that one more episode has ended: the others do not wait for it."""
        self.going_on -= 1
        self._write_if_all_wait()

    def check(self) -> None:
        """Do nothing: while anybody waits for it, the engine is not at work."""

    def _write_if_all_wait(self) -> None:
        # Nobody waits any more for a turn that is cancelled.
        self.waiting = {episode: each for episode, each in self.waiting.items() if not each.turn.cancelled()}
        if not self.waiting or len(self.waiting) < self.going_on:
            return
        asked = [self.waiting[episode] for episode in sorted(self.waiting)]
        self.waiting.clear()
        self.turns += 1
        turns = self._written(asked)
        for waiting, turn in zip(asked, turns, strict=True):
            waiting.turn.set_result(turn)

    def _written(self, asked: list[_Waiting]) -> list[Turn]:
        left = [waiting.max_tokens for waiting in asked]
        limit = max(left)
        contexts = [waiting.context for waiting in asked]
        meta_info = {**self.meta_info, "response_length": limit}
        output = self.engine.generate_sequences(context_batch(contexts, self.pad_token_id, meta_info)).batch
        responses = output["responses"][:, :limit]
        mask = output["attention_mask"][:, -output["responses"].shape[1] :][:, :limit]
        # A row whose budget ends before the others' is cut: its tokens do not depend on those that would follow.
        lengths = [min(length, most) for length, most in zip(mask.sum(dim=-1).tolist(), left, strict=True)]
        log_probs = output.get("rollout_log_probs")
        return [
            (responses[row, :length].tolist(), None if log_probs is None else log_probs[row, :length].tolist())
            for row, length in enumerate(lengths)
        ]


def context_batch(contexts: list[list[int]], pad_token_id: int, meta_info: dict[str, Any], width: int = 0) -> DataProto:
    """Pad token lists, as prompts for an engine: (bs, longest or at least width) int64, padded on the left."""
    width = max(width, *(len(tokens) for tokens in contexts))
    input_ids = torch.tensor([[pad_token_id] * (width - len(tokens)) + tokens for tokens in contexts])
    lengths = torch.tensor([len(tokens) for tokens in contexts])
    positions = (torch.arange(width) - (width - lengths)[:, None]).clamp(min=0)
    mask = (torch.arange(width) >= (width - lengths)[:, None]).long()
    tensors = {"input_ids": input_ids, "attention_mask": mask, "position_ids": positions}
    return DataProto.from_dict(tensors, {"raw_prompt_ids": objects(contexts)}, meta_info)
