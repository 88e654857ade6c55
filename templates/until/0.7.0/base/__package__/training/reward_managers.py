# vextract:template - edit freely
"""From the config to a reward manager, as this release of verl makes one."""

from functools import partial
from typing import Any

from omegaconf import OmegaConf

from ..rewards.scoring import importable
from ..settings import reward_keys
from ..switches import REWARD_MANAGERS, REWARD_PROCESSES
from ..vendored.algorithms.reward import load_reward_manager
from ..vendored.workers.reward_manager.registry import REWARD_MANAGER_REGISTRY

_WITH_CONFIG = "with_config"


def registered_managers() -> dict[str, Any]:
    """Return the reward managers by name: verl's own that this project has, and the owner's."""
    return dict(REWARD_MANAGER_REGISTRY)


def manager_class(config: Any) -> Any:
    """Return the class of the manager that the config names."""
    return REWARD_MANAGER_REGISTRY[OmegaConf.select(config, reward_keys.MANAGER)]


def load_manager(config: Any, tokenizer: Any, num_examine: int, arguments: dict[str, Any]) -> Any:
    """Return the manager that the config names: called with a batch and `return_dict`, it scores it.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        num_examine: how many responses of each data source it prints.
        arguments: further ones of its constructor.
    """
    manager = _loaded(config, tokenizer, num_examine, arguments)
    if REWARD_MANAGERS or REWARD_PROCESSES:
        importable(getattr(manager, "compute_score", None))
    return manager


def _loaded(config: Any, tokenizer: Any, num_examine: int, arguments: dict[str, Any]) -> Any:
    if "config" not in arguments:
        return load_reward_manager(config, tokenizer, num_examine=num_examine, **arguments)
    # verl's function has an argument of that name itself: the class gets its own beforehand.
    others = {name: value for name, value in arguments.items() if name != "config"}
    named = config.copy()
    OmegaConf.update(named, reward_keys.MANAGER, _WITH_CONFIG)
    REWARD_MANAGER_REGISTRY[_WITH_CONFIG] = _with_config(manager_class(config), arguments["config"])
    try:
        return load_reward_manager(named, tokenizer, num_examine=num_examine, **others)
    finally:
        del REWARD_MANAGER_REGISTRY[_WITH_CONFIG]


def _with_config(manager: Any, given: Any) -> Any:
    """Return what makes a manager with an argument `config`. Of a class it is one: verl asks what it derives from."""
    if not isinstance(manager, type):
        return partial(manager, config=given)

    def make(cls: type, *arguments: Any, **others: Any) -> Any:
        return manager(*arguments, **{**others, "config": given})

    return type(manager.__name__, (manager,), {"__new__": make})
