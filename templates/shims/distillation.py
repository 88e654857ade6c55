# vextract:template - edit freely
"""Stands for what on-policy distillation has in upstream's package, and no project needs."""

from dataclasses import dataclass
from typing import Any, NoReturn


@dataclass
class DistillationConfig:
    """The settings that the losses read.

    Attributes:
        distillation_loss: upstream's `DistillationLossConfig`.
    """

    distillation_loss: Any
    enabled: bool = True


def compute_forward_kl_topk(**_: Any) -> NoReturn:
    """Raise an error: no model here is divided by Megatron."""
    raise NotImplementedError("this project trains by FSDP: leave actor_rollout_ref.actor.strategy out")
