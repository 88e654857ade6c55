# vextract:template - edit freely
"""Scores of responses that have ended, begun while others of the same rollout are still written.

Rank 0 scores; other processes hand it the responses of theirs as they end.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from omegaconf import OmegaConf

from ..episodes.checks import is_reward
from ..rewards.manager import BEGUN
from ..run.distributed import Ranks
from ..settings import reward_keys
from ..switches import EPISODES, SPECIAL_TOKENS
from ..vendored.protocol import DataProto
from .batches import objects
from .reward_of_words import RewardOfWords

# Where the managers are that take what was begun: not one of the owner's that is called in its own way.
TAKERS = (".rewards.manager", ".training.reward_loop")


class EarlyRewards:
    """A reward manager that has begun with responses of a batch before it is given the batch.

    It begins with those that end within its `with` statement, around the rollout, and is then called as the manager
    is: what was begun of the batch is waited for, and the rest is scored as always. The scores are the manager's own.

    Args:
        manager: that can `begin` with a response.
        prompts: of each response: input_ids, attention_mask, (bs, prompt_length), and all columns.
        ranks: this process among its peers.
    """

    def __init__(self, manager: Any, prompts: DataProto, ranks: Ranks) -> None:
        self.manager = manager
        self.prompts = prompts
        self.ranks = ranks
        self.begun: list[Any] = [None] * len(prompts)

    def __enter__(self) -> "EarlyRewards":
        self.ranks.relay.begin(lambda ended: self._begin(*ended))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ranks.relay.end()
        if error is not None:
            self.manager.give_up(self.begun)

    def __call__(self, data: DataProto, return_dict: bool = False) -> Any:
        """Score a batch, as the manager does."""
        if len(self.begun) == len(data):
            data = DataProto(data.batch, data.non_tensor_batch, {**data.meta_info, BEGUN: self.begun})
        return self.manager(data, return_dict=return_dict)

    def ended(self, row: int, tokens: Sequence[int], columns: Mapping[str, Any] | None = None) -> None:
        """Hear that a response has ended; may be told twice, and from any thread.

        Args:
            row: of the global batch of prompts; or beyond its end, of one that fills it up.
            tokens: the response.
            columns: what the rollout knows besides.
        """
        if row >= len(self.begun):
            return
        if self.ranks.rank == 0:
            self._begin(row, list(tokens), dict(columns or {}))
        else:
            self.ranks.relay.send((row, list(tokens), dict(columns or {})))

    def in_order(self, rows: Sequence[int]) -> "EarlyRewards":
        """Put what was begun into the order that the rows of the batch have been put into."""
        self.begun = [self.begun[row] for row in rows]
        return self

    def _begin(self, row: int, tokens: list[int], columns: dict[str, Any]) -> None:
        if self.begun[row] is None:
            try:
                self.begun[row] = self.manager.begin(self._sample(row, tokens, columns))
            except Exception:  # raised again where the batch is scored, with what there is to say about it
                return

    def _sample(self, row: int, tokens: list[int], columns: dict[str, Any]) -> DataProto:
        given, length = self.prompts.batch, len(tokens)
        mask = given["attention_mask"][row : row + 1].cpu()
        written = torch.ones((1, length), dtype=mask.dtype) if length else torch.zeros((1, 1), dtype=mask.dtype)
        tensors = {
            "prompts": given["input_ids"][row : row + 1].cpu(),
            "responses": torch.tensor([tokens or [0]], dtype=torch.int64),
            "attention_mask": torch.cat([mask, written], dim=-1),
        }
        known = {name: values[row : row + 1] for name, values in self.prompts.non_tensor_batch.items()}
        known.update({name: objects([value]) for name, value in columns.items()})
        sample: DataProto = DataProto.from_dict(tensors, known, dict(self.prompts.meta_info))
        return sample


def early_rewards(reward_fn: Any, config: Any, ranks: Ranks, prompts: DataProto) -> EarlyRewards | None:
    """Return what begins to score the responses to prompts before all are there; None: the batch is waited for.

    That is so for managers that score a batch as a whole, for a reward model, and for what `local.reward.early` says.

    Args:
        reward_fn: the reward manager.
        config: the whole config.
        ranks: this process among its peers.
        prompts: a global batch, a row for each response.
    """
    wanted = config.local.reward.early
    manager = reward_fn.manager if SPECIAL_TOKENS and isinstance(reward_fn, RewardOfWords) else reward_fn
    if wanted is False or (EPISODES and is_reward(config) and getattr(manager, "weights", None) is None):
        return None
    in_thread = bool(wanted is True or OmegaConf.select(config, reward_keys.IN_BACKGROUND))
    return EarlyRewards(reward_fn, prompts, ranks) if can_begin(manager, in_thread) else None


def can_begin(manager: Any, in_thread: bool) -> bool:
    """Tell whether a manager can score a response while others are still written.

    Args:
        manager: a reward manager.
        in_thread: whether a plain function may be called in a thread.
    """
    begins = getattr(manager, "begins", None)
    return begins is not None and type(manager).__call__.__module__.endswith(TAKERS) and bool(begins(in_thread))
