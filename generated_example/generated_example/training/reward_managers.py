# vextract:template base/__package__/training/reward_managers.py - edit freely
"""From the config to a reward manager, as this release of verl makes one: it scores a whole batch.

With the feature reward_managers it may also be of the kind that scores one response each time: see `reward_loop.py`.
"""

from typing import Any

from omegaconf import OmegaConf

from ..settings import reward_keys
from ..vendored.algorithms.reward import get_custom_reward_fn
from ..vendored.utils.import_utils import load_extern_object
from ..vendored.workers.reward_manager.registry import REWARD_MANAGER_REGISTRY


def registered_managers() -> dict[str, Any]:
    """Return the reward managers by name: verl's own that this project has, and the owner's."""
    return dict(REWARD_MANAGER_REGISTRY)


def manager_class(config: Any) -> Any:
    """Return the class of the manager that the config names."""
    section = config.reward.reward_manager
    if section.source == "importlib":
        return load_extern_object(module_path=section.module.path, object_name=section.name)
    return registered_managers()[OmegaConf.select(config, reward_keys.MANAGER)]


def load_manager(config: Any, tokenizer: Any, num_examine: int, arguments: dict[str, Any]) -> Any:
    """Return the manager that the config names: called with a batch and `return_dict`, it scores it.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        num_examine: how many responses of each data source it prints, if it scores batches.
        arguments: further ones of its constructor.
    """
    function = get_custom_reward_fn(config)
    return manager_class(config)(
        tokenizer=tokenizer,
        num_examine=num_examine,
        compute_score=function,
        reward_fn_key=config.data.reward_fn_key,
        **arguments,
    )
