# vextract:template - edit freely
"""Whether a run has a critic, and whether it needs one."""

from typing import Any

from ..errors import ConfigError
from ..registries import AdvantageEstimator


def wants_critic(config: Any) -> bool:
    """Tell whether a run has a critic: as `critic.enable` says, or as the estimator needs one."""
    if config.critic.enable is None:
        return bool(config.algorithm.adv_estimator == AdvantageEstimator.GAE)
    return bool(config.critic.enable)


def check_critic(config: Any) -> None:
    """Check that an estimator that needs values has a critic.

    Raises:
        ConfigError: it is switched off.
    """
    if config.algorithm.adv_estimator == AdvantageEstimator.GAE and not wants_critic(config):
        raise ConfigError("algorithm.adv_estimator=gae needs the critic", "leave critic.enable out")
