# vextract:template - edit freely
"""From the project's config to what the vendored actor takes in this release of verl."""

from collections.abc import Iterable
from typing import Any

import torch
from omegaconf import OmegaConf

from ..switches import ROLLOUT_CORRECTION
from ..training.rollout_correction import policy_loss_changes
from ..vendored.algorithms.config.config import CheckpointConfig
from ..vendored.workers.config.actor import FSDPActorConfig, PolicyLossConfig
from ..vendored.workers.config.optimizer import FSDPOptimizerConfig

# Whether the vendored actor, on the only update of a batch, takes the log-probabilities that it has just computed as
# the old ones.
TAKES_OWN_LOG_PROBS = True


def actor_config(config: Any, settings: dict[str, Any]) -> FSDPActorConfig:
    """Return the vendored actor's config.

    Args:
        config: the whole config.
        settings: the actor's, with its sizes counted in responses.
    """
    policy_loss = settings["policy_loss"]
    if ROLLOUT_CORRECTION:
        policy_loss = {**policy_loss, **policy_loss_changes(config)}
    changed = {
        "rollout_n": config.actor_rollout_ref.rollout.n,
        "optim": FSDPOptimizerConfig(**settings["optim"]),
        "fsdp_config": OmegaConf.create(settings["fsdp_config"]),  # which has `dtype` before upstream's class does
        "policy_loss": PolicyLossConfig(**policy_loss),
        "checkpoint": CheckpointConfig(),
    }
    return FSDPActorConfig(**{**settings, **changed})


def build_optimizer(parameters: Iterable[torch.nn.Parameter], optim: Any) -> torch.optim.Optimizer:
    """Return the optimizer that an `optim` section describes: AdamW, as verl makes it in this release."""
    return torch.optim.AdamW(parameters, lr=optim.lr, betas=tuple(optim.betas), weight_decay=optim.weight_decay)
