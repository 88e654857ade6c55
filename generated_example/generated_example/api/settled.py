# vextract:template base/__package__/api/settled.py - edit freely
"""What a caller brings, checked against the config before anything is loaded; and what it decides of the config."""

from typing import Any

from omegaconf import OmegaConf, open_dict

from ..errors import ConfigError, DataError
from ..settings import reward_keys
from ..training.rewarding import Rewards
from .inputs import Given
from .inputs.datasets import check_kind, files_of
from .inputs.rewards import check_reward, manager_of


def settled(config: Any, given: Given, world_size: int) -> Given:
    """Check what is given, and let the config say so where it decides something. Every process must call this.

    Args:
        config: the whole config; it is changed.
        given: what the caller brings.
        world_size: so many processes.

    Returns:
        The same, as the parts of a run take it.

    Raises:
        ConfigError: it cannot be used, or contradicts the config.
        DataError: the same of the data.
    """
    _refuse_objects(given)
    _check_data(config, given)
    if given.train_dataset is not None and given.val_dataset is None and not config.data.val_files:
        with open_dict(config):  # there is nothing to validate on
            config.trainer.test_freq, config.trainer.val_before_train = -1, False
    _check_scores(config, given)
    _check_rewards(given)
    return given


def _refuse_objects(given: Given) -> None:
    for name in ("environment", "model", "tokenizer"):
        if getattr(given, name) is not None:
            raise ConfigError(f"{name}= is given, an object", "vextract add given_objects")


def _check_data(config: Any, given: Given) -> None:
    has_prompts = given.train_dataset is not None
    if given.val_dataset is not None and not has_prompts:
        raise DataError("a val_dataset is given, and no train_dataset", "give both, or name files in the config")
    for split in ("train", "val"):
        dataset = getattr(given, f"{split}_dataset")
        if dataset is None:
            continue
        if files_of(dataset, split) is None:
            check_kind(dataset, split)
        for key in (f"data.{split}_files", "data.custom_cls.path"):
            if OmegaConf.select(config, key):
                raise ConfigError(
                    f"{key} is {OmegaConf.select(config, key)}, and a {split}_dataset is given as well",
                    f"leave one of them out: {key}=null, or no {split}_dataset",
                )


def _check_scores(config: Any, given: Given) -> None:
    """Refuse two rewards of which one would not count."""
    if given.reward_fn is None:
        return
    what = "a reward_fn is given"
    others = {f"{reward_keys.FUNCTION}.path": "null"}
    for key, off in others.items():
        if OmegaConf.select(config, key):
            raise ConfigError(
                f"{key} is {OmegaConf.select(config, key)}, and {what}: both would score the responses",
                f"leave one of them out: {key}={off}, or no reward",
            )


def _check_rewards(given: Given) -> None:
    if given.reward_weights is not None:
        raise ConfigError("reward_weights are given, for several rewards", "vextract add reward_forms")
    for reward_fn in (given.reward_fn, given.val_reward_fn):
        if reward_fn is not None:
            check_reward(reward_fn)


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
