# vextract:template - edit freely
"""From the config to a reward manager: verl's own of this release, which has no registry, or one that is registered."""

from typing import Any

from omegaconf import OmegaConf

from ..settings import reward_keys
from ..vendored.algorithms.reward import default_compute_score, get_custom_reward_fn, load_reward_manager
from ..vendored.workers.reward_manager.naive import NaiveRewardManager
from ..vendored.workers.reward_manager.registry import REWARD_MANAGER_REGISTRY

OF_VERL = {"naive": NaiveRewardManager}


def registered_managers() -> dict[str, Any]:
    """Return the reward managers by name: verl's own that this project has, and the owner's."""
    return {**OF_VERL, **REWARD_MANAGER_REGISTRY}


def manager_class(config: Any) -> Any:
    """Return the class of the manager that the config names."""
    return registered_managers()[OmegaConf.select(config, reward_keys.MANAGER)]


def load_manager(config: Any, tokenizer: Any, num_examine: int, arguments: dict[str, Any]) -> Any:
    """Return the manager that the config names: called with a batch and `return_dict`, it scores it.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        num_examine: how many responses of each data source it prints.
        arguments: further ones of its constructor.
    """
    owned = REWARD_MANAGER_REGISTRY.get(OmegaConf.select(config, reward_keys.MANAGER))
    if owned is None:
        return load_reward_manager(config, tokenizer, num_examine=num_examine, **arguments)
    return owned(
        tokenizer=tokenizer,
        num_examine=num_examine,
        compute_score=get_custom_reward_fn(config) or default_compute_score,
        reward_fn_key=config.data.reward_fn_key,
        **arguments,
    )
