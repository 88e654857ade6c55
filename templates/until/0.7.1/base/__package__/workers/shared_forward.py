# vextract:template - edit freely
"""How a process forwards its part of a pass that it shares with others."""

from typing import Any

import torch

from ..tracking.timing import begin
from .passes import SharedPasses


class SharedForward(SharedPasses):
    """Mixed into the vendored actor and critic, before them; with one process it changes nothing."""

    def _forward_micro_batch(self, micro_batch: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """One pass. In an update all rows of it come back, though this process has forwarded only some of them."""
        begin(len(micro_batch["responses"]))
        forward = super()._forward_micro_batch  # type: ignore[misc]
        if self.sharers == 1 or not torch.is_grad_enabled():
            return forward(micro_batch, *args, **kwargs)
        partition = self.partition(micro_batch["attention_mask"].sum(dim=-1))
        rows = self.own(partition)
        part = {name: value[rows] if hasattr(value, "shape") else value for name, value in micro_batch.items()}
        outputs = forward(part, *args, **kwargs)
        if isinstance(outputs, dict):
            return {name: self.whole(output, partition) for name, output in outputs.items()}
        if isinstance(outputs, tuple):
            return tuple(None if output is None else self.whole(output, partition) for output in outputs)
        return self.whole(outputs, partition)
