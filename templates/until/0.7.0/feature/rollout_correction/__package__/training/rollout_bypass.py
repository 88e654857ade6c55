# vextract:template - edit freely
"""Bypass mode of rollout correction as this release of verl has it: the loss clips against the rollout's policy."""

from typing import Any

from omegaconf import OmegaConf

from ..vendored.algorithms.rollout_corr_helper import apply_bypass_mode
from ..vendored.protocol import DataProto


def bypass(batch: DataProto, section: Any) -> None:
    """Give a batch the log-probabilities of its rollout as old_log_probs."""
    apply_bypass_mode(batch=batch, rollout_corr_config=section, policy_loss_config=OmegaConf.create())


def loss_of_bypass(section: Any) -> dict[str, Any]:
    """Return the settings of the policy loss in bypass mode: none of its own."""
    return {}
