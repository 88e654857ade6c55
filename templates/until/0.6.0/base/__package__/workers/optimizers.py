# vextract:template - edit freely
"""The optimizer of a model."""

from collections.abc import Iterable
from typing import Any

import torch


def build_optimizer(parameters: Iterable[torch.nn.Parameter], optim: Any) -> torch.optim.Optimizer:
    """Return the optimizer that an `optim` section describes: AdamW, as verl makes it in this release."""
    return torch.optim.AdamW(parameters, lr=optim.lr, betas=tuple(optim.betas), weight_decay=optim.weight_decay)
