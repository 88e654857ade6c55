# vextract:template - edit freely
"""A last layer that computes in pieces, for the vendored actor's way to use fused kernels."""

import functools
from dataclasses import dataclass
from typing import Any

import torch
from transformers.utils import ModelOutput

from .logits import Asked, LogitsInPieces


@dataclass
class TokenOutputs(ModelOutput):
    """Holds what a model says of each token, in the place of its logits.

    Attributes:
        log_probs: (bs, length), of the token that follows.
        entropy: (bs, length); zeros where nobody asked for it.
    """

    log_probs: torch.Tensor | None = None
    entropy: torch.Tensor | None = None


class FusedLogits(LogitsInPieces):
    """The last layer of a model that takes a temperature, as one with fused kernels does, and then computes in pieces.

    Attributes:
        calculate_entropy: whether the next pass is to compute entropies as well.
    """

    def __init__(self, module: Any, max_logits_mb: float | str | None) -> None:
        super().__init__(module, max_logits_mb)
        self.calculate_entropy = False
        model = module.get_base_model() if hasattr(module, "peft_config") else module
        self._forward = forward = model.forward

        @functools.wraps(forward)
        def with_temperature(*args: Any, **kwargs: Any) -> Any:
            return self._with_temperature(*args, **kwargs)

        model.forward = with_temperature

    def _with_temperature(
        self,
        *args: Any,
        temperature: float | None = None,
        shift_labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        if temperature is None:
            return self._forward(*args, **kwargs)
        labels = torch.roll(kwargs["input_ids"], shifts=-1, dims=-1) if shift_labels is None else shift_labels
        self.asked = Asked(labels, temperature, self.calculate_entropy)
        try:
            found = self._forward(*args, **kwargs).logits
        finally:
            self.asked = None
        return TokenOutputs(log_probs=found[..., 0], entropy=found[..., 1])
