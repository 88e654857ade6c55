# vextract:template - edit freely
"""From the project's config to what the vendored actor takes in this release of verl."""

from collections.abc import Iterable
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

# The vendored actor always takes the old log-probabilities that it is given.
TAKES_OWN_LOG_PROBS = False


def actor_config(config: Any, settings: dict[str, Any]) -> DictConfig:
    """Return the vendored actor's config: its settings as they are."""
    return OmegaConf.create(settings)


def build_optimizer(parameters: Iterable[torch.nn.Parameter], optim: Any) -> torch.optim.Optimizer:
    """Return the optimizer that an `optim` section describes: AdamW, as verl makes it in this release."""
    return torch.optim.AdamW(parameters, lr=optim.lr, betas=tuple(optim.betas), weight_decay=optim.weight_decay)
