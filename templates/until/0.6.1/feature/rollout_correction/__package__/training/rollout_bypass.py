# vextract:template - edit freely
"""Bypass mode of rollout correction as this release of verl has it: the loss clips against the rollout's policy."""

from typing import Any

from ..errors import ConfigError
from ..vendored.algorithms.rollout_corr_helper import apply_rollout_correction
from ..vendored.protocol import DataProto


def bypass(batch: DataProto, section: Any) -> None:
    """Give a batch the log-probabilities of its rollout as old_log_probs."""
    if section.use_policy_gradient:
        raise ConfigError(
            "algorithm.rollout_correction.use_policy_gradient is true, which this trainer does not have",
            "leave it false: bypass_mode then clips against the rollout's policy",
        )
    apply_rollout_correction(batch=batch, rollout_corr_config=section, policy_loss_config={})


def loss_of_bypass(section: Any) -> dict[str, Any]:
    """Return the settings of the policy loss in bypass mode: none of its own."""
    return {}
