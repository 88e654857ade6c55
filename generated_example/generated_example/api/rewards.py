# vextract:template base/__package__/api/rewards.py - edit freely
"""Rewards that a caller brings: what a `reward_fn` may be.

A function with verl's arguments, `(data_source, solution_str, ground_truth, extra_info)`, that returns a number, or a
dictionary with `score` in it; or a reward manager, called as `manager(batch, return_dict=True)`.
"""

import inspect
from typing import Any

from ..errors import ConfigError
from ..rewards.manager import TextRewardManager
from ..training.rewarding import Rewards, offered
from .given import Given

VERLS = {"data_source", "solution_str", "ground_truth"}


def reward_functions(given: Given, rewards: Rewards, config: Any, tokenizer: Any) -> tuple[Any, Any]:
    """Return what scores the batches of training and of validation: what is given, else the config's.

    Raises:
        ConfigError: what is given cannot be called as a reward is.
    """
    train, validation = rewards.train, rewards.validation
    if given.reward_fn is not None:
        train = validation = manager_of(given.reward_fn, config, tokenizer)
    if given.val_reward_fn is not None:
        validation = manager_of(given.val_reward_fn, config, tokenizer)
    return train, validation


def manager_of(reward_fn: Any, config: Any, tokenizer: Any) -> Any:
    """Return a reward manager that scores with what the caller has given."""
    if not callable(reward_fn):
        raise ConfigError(f"the reward is a {type(reward_fn).__name__}, which cannot be called", "give a function")
    if set(inspect.signature(reward_fn).parameters) >= VERLS:
        arguments = offered(config, TextRewardManager)
        return TextRewardManager(tokenizer, 0, reward_fn, config.data.reward_fn_key, **arguments)
    return reward_fn
