# vextract:template - edit freely
"""The vendored engine with verl's loss, as the critic that the trainer knows."""

from functools import partial
from typing import Any

import torch

from ..vendored.algorithms.losses import value_loss
from ..vendored.protocol import DataProto
from ..vendored.workers.engine.fsdp.transformer_impl import FSDPEngineWithValueHead
from .actor import LocalEngine


class SharedCritic(LocalEngine, FSDPEngineWithValueHead):
    """Upstream's `FSDPEngineWithValueHead` and `value_loss`, around a model that is there already.

    Args:
        config: the section `critic`.
        module: the model, on its device.
        optimizer: of the model.
    """

    def __init__(self, config: Any, module: Any, optimizer: torch.optim.Optimizer) -> None:
        config.use_remove_padding = config.model.use_remove_padding
        config.fsdp_config = config.model.fsdp_config
        config.loss_scale_factor = None
        super().__init__(config, module, optimizer)

    def compute_values(self, data: DataProto) -> torch.Tensor:
        """Return the value at each token of the responses, (bs, response_length) float32, 0 on padding."""
        return self.infer(data)["values"]

    def update_critic(self, data: DataProto) -> dict[str, Any]:
        """Train on a batch; returns upstream's metrics, named critic/*, each a list."""
        loss, found = partial(value_loss, self.config), dict[str, Any]()
        with self.train_mode(disable_auto_offload=True):
            for batch in self.mini_batches(data):
                self.note(found, self.train_batch(batch, loss_function=loss))
        return {name if name.startswith("critic/") else f"critic/{name}": value for name, value in found.items()}
