# vextract:template - edit freely
"""From the config to a reward manager, as this release of verl makes one: it scores a whole batch.

With the feature reward_managers it may also be of the kind that scores one response each time: see `reward_loop.py`.
"""

from typing import Any

from omegaconf import OmegaConf

from ..rewards.scoring import importable
from ..settings import reward_keys
from ..switches import OVERLAP, REWARD_MANAGERS, REWARD_PROCESSES
from ..vendored.algorithms.reward import get_custom_reward_fn
from ..vendored.utils.import_utils import load_extern_object
from ..vendored.workers.reward_loop.registry import REWARD_MANAGER
from ..vendored.workers.reward_manager.registry import REWARD_MANAGER_REGISTRY
from .loop_ahead import LoopAhead
from .reward_loop import RewardLoop


def registered_managers() -> dict[str, Any]:
    """Return the reward managers by name: verl's own that this project has, and the owner's."""
    return {**REWARD_MANAGER, **REWARD_MANAGER_REGISTRY} if REWARD_MANAGERS else dict(REWARD_MANAGER_REGISTRY)


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
    if REWARD_MANAGERS and hasattr(manager_class(config), "run_single"):
        return LoopAhead(config, tokenizer, arguments) if OVERLAP else RewardLoop(config, tokenizer, arguments)
    function = get_custom_reward_fn(config)
    if REWARD_MANAGERS or REWARD_PROCESSES:
        importable(function)
    return manager_class(config)(
        tokenizer=tokenizer,
        num_examine=num_examine,
        compute_score=function,
        reward_fn_key=config.data.reward_fn_key,
        **arguments,
    )
