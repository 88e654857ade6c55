# vextract:template - edit freely
"""The vendored critic, whose passes several processes compute together."""

from typing import Any

import torch

from ..vendored.protocol import DataProto
from ..vendored.workers.dp_critic import DataParallelPPOCritic
from .shared_forward import SharedForward


class SharedCritic:
    """Upstream's `DataParallelPPOCritic`, around a model that is there already.

    Attributes:
        passes: how its passes are shared between the processes.

    Args:
        config: the section `critic`.
        module: the model, on its device.
        optimizer: of the model.
    """

    def __init__(self, config: Any, module: Any, optimizer: torch.optim.Optimizer) -> None:
        self._critic = DataParallelPPOCritic(config, module, optimizer)
        self.passes = SharedForward(self._critic._forward_micro_batch, config)
        self._critic._forward_micro_batch = self.passes.forward

    def compute_values(self, data: DataProto) -> torch.Tensor:
        """Return the value at each token of the responses, (bs, response_length), 0 on padding."""
        values: torch.Tensor = self._critic.compute_values(data)
        return values

    def update_critic(self, data: DataProto) -> dict[str, Any]:
        """Train on a batch; returns upstream's metrics, named critic/*, each a list."""
        metrics: dict[str, Any] = self._critic.update_critic(data)
        return metrics
