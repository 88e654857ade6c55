# vextract:template base/__package__/workers/optimizers.py - edit freely
"""The optimizer of a model."""

from collections.abc import Iterable
from typing import Any

import torch
from omegaconf import OmegaConf

from ..vendored.workers.config.optimizer import FSDPOptimizerConfig
from ..vendored.workers.config.optimizer import build_optimizer as build_optimizer_from_config


def build_optimizer(parameters: Iterable[torch.nn.Parameter], optim: Any) -> torch.optim.Optimizer:
    """Return the optimizer that an `optim` section describes, as verl makes it."""
    node: Any = OmegaConf.to_container(optim, resolve=True)
    optimizer: torch.optim.Optimizer = build_optimizer_from_config(parameters, FSDPOptimizerConfig(**node))
    return optimizer
