# vextract:template base/__package__/workers/logits.py - edit freely
"""Log-probabilities of a vocabulary that is too large for the logits of a whole pass.

The last layer is applied to some tokens at a time, and once more in the backward pass, so that no more logits are held
than those of one piece. Upstream's fused kernels (`use_fused_kernels`, verl/utils/experimental/torch_functional.py) do
so too; here the numbers still come from the functions that take whole logits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.utils import ModelOutput

from ..settings.devices import AUTO, LOGITS_MB
from ..shims.logsumexp import giving_up_logits, needs_gradient_of_entropy
from ..shims.precision import keeping_casts
from ..vendored.utils.torch_functional import entropy_from_logits, logprobs_from_logits
from .devices import get_device_name

BYTES = 4  # of a number, while a sum over the vocabulary is computed


@dataclass
class TokenOutputs(ModelOutput):
    """Holds what a model says of each token, in the place of its logits.

    Attributes:
        log_probs: (bs, length), of the token that follows.
        entropy: (bs, length); zeros where nobody asked for it.
    """

    log_probs: torch.Tensor | None = None
    entropy: torch.Tensor | None = None


class LogitsInPieces:
    """Stands before a causal language model, and computes its logits in pieces where it is given a temperature.

    Attributes:
        calculate_entropy: whether the next pass is to compute entropies as well.

    Args:
        model: the model itself, without the wrapper that peft puts around it.
    """

    def __init__(self, model: Any) -> None:
        self.calculate_entropy = False
        self._model = self._module = model
        self._limit: int | None = None
        self._usable: bool | None = None
        self._forward = forward = model.forward

        @functools.wraps(forward)
        def forward_in_pieces(*args: Any, temperature: float | None = None, **kwargs: Any) -> Any:
            return forward(*args, **kwargs) if temperature is None else self._in_pieces(temperature, *args, **kwargs)

        model.forward, model.logits_in_pieces = forward_in_pieces, self

    @classmethod
    def before(cls, module: Any, max_logits_mb: float | str | None) -> LogitsInPieces:
        """Return what stands before a model: one for a policy and the reference that it is without its adapter.

        Args:
            module: the model, placed where it computes; one with an adapter of peft as well.
            max_logits_mb: how many MiB the logits of one piece take at most; auto: what is usual on this device; None:
                they are always computed whole.
        """
        model = module.get_base_model() if hasattr(module, "peft_config") else module
        found = vars(model).get("logits_in_pieces") or cls(model)
        found._module, found._usable = module, None
        if max_logits_mb == AUTO:
            max_logits_mb = LOGITS_MB["cuda" if get_device_name() == "cuda" else "cpu"]
        found._limit = None if max_logits_mb is None else int(float(max_logits_mb) * 2**20)
        return found

    def prepare(self) -> None:
        """Find out, before the first pass, whether the model's logits are what its last layer gives; all must call."""
        if self._usable is None and self._limit is not None:
            self._usable = self._has_plain_logits()

    def wanted(self, tokens: int) -> bool:
        """Tell whether the logits of so many tokens are to be computed in pieces."""
        return bool(self._usable and self._limit is not None and tokens > self.tokens_at_once)

    @property
    def tokens_at_once(self) -> int:
        """Return how many tokens a piece has."""
        return max(1, (self._limit or 0) // (BYTES * self._vocabulary))

    @property
    def _vocabulary(self) -> int:
        size: int = self._model.config.get_text_config().vocab_size
        return size

    @torch.no_grad()
    def _has_plain_logits(self) -> bool:
        """Have the last layer give large numbers, and see whether they arrive: some models scale or cap them."""
        head = self._model.get_output_embeddings()
        if head is None:
            return False
        given: list[torch.Tensor] = []

        def large(_module: nn.Module, _inputs: object, output: torch.Tensor) -> torch.Tensor:
            numbers = torch.linspace(-1000, 1000, output.shape[-1], device=output.device)
            given.append(numbers.to(output.dtype).expand_as(output))
            return given[-1].clone()

        hook = head.register_forward_hook(large)
        trained = self._module.training
        try:
            device = self._model.get_input_embeddings().weight.device
            token = torch.zeros((1, 1), dtype=torch.long, device=device)
            logits = self._module.eval()(input_ids=token, attention_mask=token + 1, use_cache=False).logits
        finally:
            hook.remove()
            self._module.train(trained)
        return len(given) == 1 and torch.equal(given[0].float(), logits.float())

    def _in_pieces(
        self, temperature: float, *args: Any, shift_labels: torch.Tensor | None = None, **kwargs: Any
    ) -> TokenOutputs:
        """Compute what the model computes, but for its last layer, and of that layer what is said of each token.

        Args:
            temperature: that logits are divided by.
            shift_labels: (bs, length), the token that follows each; None: the next of its row of `input_ids`.
        """
        labels = torch.roll(kwargs["input_ids"], shifts=-1, dims=-1) if shift_labels is None else shift_labels
        head = self._model.get_output_embeddings()
        whole, size = head.forward, self.tokens_at_once

        def all_pieces(hidden: torch.Tensor) -> torch.Tensor:
            of_piece = _computed_again if torch.is_grad_enabled() and hidden.requires_grad else _of_piece
            parts = zip(hidden.flatten(0, 1).split(size), labels.flatten().split(size), strict=True)
            with keeping_casts(True):  # of this layer's weights, which all pieces take
                found = [of_piece(whole, *part, temperature, self.calculate_entropy) for part in parts]
            return torch.stack([torch.cat(values) for values in zip(*found, strict=True)], -1).view(*labels.shape, 2)

        # All within one call of the layer: FSDP2 may gather its weights for each.
        head.forward = all_pieces
        try:
            found = self._forward(*args, **kwargs).logits
        finally:
            head.forward = whole
        return TokenOutputs(log_probs=found[..., 0], entropy=found[..., 1])


def _computed_again(*arguments: Any) -> Any:
    """Compute a piece that keeps nothing for its backward pass, which computes it again."""
    return checkpoint(_of_piece, *arguments, use_reentrant=False, preserve_rng_state=False)


def _of_piece(
    head: Callable[..., torch.Tensor],
    hidden: torch.Tensor,
    labels: torch.Tensor,
    temperature: float,
    calculate_entropy: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log-probabilities and entropies of some tokens, both (tokens,).

    Args:
        head: computes logits, (tokens, vocab_size).
        hidden: (tokens, hidden_size).
        labels: (tokens,).
        temperature: that logits are divided by.
        calculate_entropy: False: entropies are zeros.
    """
    logits = head(hidden)
    if temperature != 1.0:
        logits.div_(temperature)
    # The entropy comes last: where it is only reported, the backward pass does not compute it again.
    needed = calculate_entropy and needs_gradient_of_entropy()
    with nullcontext() if needed else giving_up_logits():
        log_probs = logprobs_from_logits(logits, labels.to(logits.device), inplace_backward=not needed)
    return log_probs, entropy_from_logits(logits) if calculate_entropy else torch.zeros_like(log_probs.detach())
