# vextract:template - edit freely
"""How a process forwards its part of a pass that it shares with others."""

from collections.abc import Callable
from typing import Any

import torch

from .passes import SharedPasses


class SharedForward(SharedPasses):
    """Stands before the forward pass of the vendored actor or critic; with one process it changes nothing.

    Args:
        forward: the vendored `_forward_micro_batch`.
        config: the section of the model.
    """

    def __init__(self, forward: Callable[..., Any], config: Any) -> None:
        super().__init__(config)
        self._forward = forward

    def forward(self, micro_batch: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Compute one pass. In an update all its rows come back, though this process has forwarded some only."""
        if torch.is_grad_enabled():
            self.begin_pass()
        if self.sharers == 1 or not torch.is_grad_enabled():
            return self._forward(micro_batch, *args, **kwargs)
        partition = self.partition(micro_batch["attention_mask"].sum(dim=-1))
        rows = self.own(partition)
        part = {name: value[rows] if hasattr(value, "shape") else value for name, value in micro_batch.items()}
        outputs = self._forward(part, *args, **kwargs)
        if isinstance(outputs, dict):
            return {name: self.gather_rows(output, partition) for name, output in outputs.items()}
        if isinstance(outputs, tuple):
            return tuple(None if output is None else self.gather_rows(output, partition) for output in outputs)
        return self.gather_rows(outputs, partition)
