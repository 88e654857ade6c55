# vextract:template - edit freely
"""A model that judges responses, before the reward manager: what it gives is the reward, or a component of it."""

from collections.abc import Sequence
from typing import Any

import torch
from omegaconf import OmegaConf

from ..episodes.checks import is_reward
from ..errors import ConfigError
from ..rewards.reward_model import RewardModel
from ..run.distributed import Ranks
from ..settings import reward_keys
from ..switches import EPISODES
from ..vendored.protocol import DataProto


class Judged:
    """A reward manager that is given the scores of a reward model with the batch, as `rm_scores`.

    Args:
        manager: the reward manager. verl's own, and `env` without weights, return these scores as they are.
        model: the reward model.
    """

    def __init__(self, manager: Any, model: RewardModel) -> None:
        self.manager = manager
        self.model = model

    def __call__(self, data: DataProto, return_dict: bool = False) -> Any:
        """Score a batch, as the manager does."""
        data = DataProto(data.batch.copy(), dict(data.non_tensor_batch), dict(data.meta_info))
        data.batch["rm_scores"] = self.model.token_scores(data)
        return self.manager(data, return_dict=return_dict)


def judged(managers: Sequence[Any], config: Any, tokenizer: Any, ranks: Ranks) -> list[Any]:
    """Put the reward model that the config names before reward managers. Every process must call this.

    Rank 0 alone has the model, and computes rewards; other processes get the managers as they are.

    Args:
        managers: for training and validation.
        config: the whole config.
        tokenizer: of the policy.
        ranks: this process among its peers.

    Raises:
        ConfigError: the model cannot be used.
    """
    found = list(managers)

    def load() -> None:
        model = _load(config, tokenizer)
        found[:] = [Judged(manager, model) for manager in managers]

    ranks.on_driver(load)
    return found


def _load(config: Any, tokenizer: Any) -> RewardModel:
    path = OmegaConf.select(config, reward_keys.JUDGE_PATH)
    if EPISODES and is_reward(config):
        raise ConfigError(
            f"{reward_keys.JUDGE} and local.env.is_reward would both give the reward of an episode",
            f"set local.env.is_reward=false, or {reward_keys.JUDGE}=false",
        )
    if path is None:
        raise ConfigError(
            f"{reward_keys.JUDGE} is true, and there is no reward model",
            f"set {reward_keys.JUDGE_PATH} to a model with one label, or {reward_keys.JUDGE}=false",
        )
    settings = {name: OmegaConf.select(config, key) for name, key in reward_keys.JUDGE_SETTINGS.items()}
    try:
        return RewardModel(path, tokenizer, config.local.device, getattr(torch, config.local.dtype), **settings)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot use the reward model: {error}", f"check {reward_keys.JUDGE_PATH}") from error
