# vextract:template - edit freely
"""The settings of PRIME, checked before anything is loaded."""

from typing import Any

from ..errors import ConfigError
from .process_advantages import LOSSES

KEY = "local.prime"
CHOICES: dict[str, tuple[str, ...]] = {
    "loss_type": LOSSES,
    "update": ("before", "after", "reverse", "none"),
    "prime_granularity": ("token", "whole"),
    "prime_norm": ("batch_norm", "none"),
}


def wants_process_rewards(config: Any) -> bool:
    """Tell whether a config asks for process rewards."""
    return bool(config.local.prime.enable)


def check_process_rewards(config: Any) -> None:
    """Check the settings of PRIME, if a config asks for it.

    Raises:
        ConfigError: one is not possible, or does not go with another one.
    """
    if not wants_process_rewards(config):
        return
    section = config.local.prime
    for name, choices in CHOICES.items():
        if section[name] not in choices:
            raise ConfigError(f"{KEY}.{name} is {section[name]!r}", f"choose one of: {', '.join(choices)}")
    if config.actor_rollout_ref.rollout.n < 2:
        raise ConfigError(
            f"{KEY}.enable compares the responses to a prompt, and there is one",
            "set actor_rollout_ref.rollout.n to 2 or more",
        )
    if section.filter_accuracy and config.algorithm.filter_groups.enable:
        raise ConfigError(
            f"{KEY}.filter_accuracy and algorithm.filter_groups.enable both choose the prompts to learn from",
            f"leave one of the two out: {KEY}.filter_accuracy=false, say",
        )
    bounds = (section.accuracy_lower_bound, section.accuracy_upper_bound)
    if section.filter_accuracy and not 0 <= bounds[0] <= bounds[1] <= 1:
        raise ConfigError(
            f"{KEY}.accuracy_lower_bound and accuracy_upper_bound are {bounds[0]} and {bounds[1]}",
            "they are shares from 0 to 1, the lower one first",
        )
