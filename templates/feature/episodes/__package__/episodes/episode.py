# vextract:template - edit freely
"""One episode as it grows, and the batch that all of them become."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..data.steps import Observation
from ..switches import TOOLS
from ..training.batches import objects
from ..vendored.protocol import DataProto
from .environments import Failure
from .turns import context_batch
from .words import CONVERSATION

COUNTS = ("turns", "__num_turns__")


@dataclass
class Episode:
    """One episode as it grows.

    Attributes:
        prompt: tokens, without padding.
        tokens: what came after: the model's and the environment's.
        sampled: for each of them, whether the model wrote it.
        log_probs: for each, the log-probability that the engine gave it; 0 where the environment wrote.
        has_log_probs: whether the engine gave any.
        scores: the reward of each turn of the model.
        turn_starts, turn_ends: for each turn of the model, the place in `tokens` of its first and its last token.
        messages: what the model and the environment have said, by turns.
        answers: how often the environment has answered.
        info: what the environment reported last.
        end: why the episode ended; "" while it goes on.
        failure: what went wrong in the environment.
    """

    prompt: list[int]
    failure: Failure | None = None
    tokens: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    has_log_probs: bool = False
    scores: list[float] = field(default_factory=list)
    turn_starts: list[int] = field(default_factory=list)
    turn_ends: list[int] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    answers: int = 0
    info: dict[str, Any] = field(default_factory=dict)
    end: str = ""
    if TOOLS:
        tool_rewards: list[float] = field(default_factory=list)

    def add_turn(self, tokens: list[int], log_probs: list[float] | None, text: str) -> None:
        """Append a turn of the model, whose reward is not known yet."""
        self.turn_starts.append(len(self.tokens))
        self.messages.append({"role": "assistant", "content": text})
        self._add(tokens, sampled=True, log_probs=log_probs)
        self.has_log_probs = log_probs is not None
        self.turn_ends.append(max(len(self.tokens) - 1, 0))
        self.scores.append(0.0)

    def add_answer(self, tokens: list[int], said: Observation) -> None:
        """Append what the environment says, as tokens; `said`: as the environment has said it."""
        self.messages += [{"role": "user", "content": said}] if isinstance(said, str) else map(dict, said)
        self._add(tokens, sampled=False)
        self.answers += 1

    def take_back(self) -> None:
        """Take out the last token of a turn, which an answer begins with another one instead of."""
        for values in (self.tokens, self.sampled, self.log_probs):
            values.pop()  # type: ignore[attr-defined]
        self.turn_ends[-1] = max(len(self.tokens) - 1, 0)

    def fail(self, failure: Failure) -> None:
        """End the episode because its environment is of no more use."""
        self.failure = failure
        self.end = failure.kind

    def _add(self, tokens: list[int], *, sampled: bool, log_probs: list[float] | None = None) -> None:
        self.tokens += tokens
        self.sampled += [int(sampled)] * len(tokens)
        self.log_probs += log_probs or [0.0] * len(tokens)


def episode_batch(prompts: DataProto, episodes: Sequence[Episode], length: int, pad: int) -> DataProto:
    """Return episodes as a rollout engine returns responses.

    Args:
        prompts: what they began with: input_ids, attention_mask, position_ids, (bs, prompt_length) int64.
        episodes: one for each prompt, all at their end.
        length: that responses are padded to.
        pad: the token for padding.

    Returns:
        What an engine returns for a single turn, response_mask (bs, length) int64, and columns: see `EpisodeLoop.run`.
    """
    responses = torch.tensor([_padded(e.tokens, length, pad) for e in episodes])
    valid = torch.tensor([_padded([1] * len(e.tokens), length, 0) for e in episodes])
    ids, mask, positions = (prompts.batch[name].cpu() for name in ("input_ids", "attention_mask", "position_ids"))
    tensors = {
        "prompts": ids,
        "responses": responses,
        "response_mask": torch.tensor([_padded(e.sampled, length, 0) for e in episodes]),
        "input_ids": torch.cat([ids, responses], dim=-1),
        "attention_mask": torch.cat([mask, valid.to(mask.dtype)], dim=-1),
        "position_ids": torch.cat([positions, positions[:, -1:] + torch.arange(1, length + 1)], dim=-1),
    }
    if any(e.has_log_probs for e in episodes):
        tensors["rollout_log_probs"] = torch.tensor([_padded(e.log_probs, length, 0.0) for e in episodes])
    rows = [columns_of(episode) for episode in episodes]
    columns = {name: objects(row[name] for row in rows) for name in rows[0]}
    for name in COUNTS:
        columns[name] = columns[name].astype(np.int64)
    return DataProto.from_dict(tensors, columns)


def batch_with_prompts(
    prompts: DataProto, episodes: Sequence[Episode], seconds: float, config: Any, tokenizer: Any
) -> DataProto:
    """Return episodes that began with prompts of their own in the place of those that were given: see `episode_batch`.

    Args:
        prompts: those that were given; the new ones are at least as wide.
        episodes: one for each prompt, all at their end.
        seconds: how long tools or programs were at work, which becomes the column env_seconds.
        config: the whole config.
        tokenizer: of the policy.
    """
    pad, width = tokenizer.pad_token_id, prompts.batch["input_ids"].shape[1]
    asked = context_batch([episode.prompt for episode in episodes], pad, prompts.meta_info, width)
    batch = episode_batch(asked, episodes, config.actor_rollout_ref.rollout.response_length, pad)
    batch.non_tensor_batch["env_seconds"] = np.full(len(episodes), seconds)
    return batch


def columns_of(episode: Episode) -> dict[str, Any]:
    """Return what the columns say of an episode at its end: see `EpisodeLoop.run`."""
    failure = episode.failure
    columns = {
        "turn_scores": episode.scores,
        "turn_starts": episode.turn_starts,
        "turn_ends": episode.turn_ends,
        CONVERSATION: episode.messages,
        "env_info": episode.info,
        "env_end": episode.end,
        "env_error": failure.message if failure else "",
        "env_error_file": failure.where if failure else "",
        "turns": len(episode.scores),
        "__num_turns__": len(episode.scores) + episode.answers + 1,
    }
    if TOOLS:
        columns["tool_rewards"] = episode.tool_rewards
    return columns


def _padded(values: list[Any], length: int, value: Any) -> list[Any]:
    return values + [value] * (length - len(values))
