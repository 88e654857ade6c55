# vextract:template - edit freely
"""Log-probabilities of a vocabulary that is too large for the logits of a whole pass.

The last layer is applied to some tokens at a time, and once more in the backward pass, so that no more logits are held
than those of one piece. The numbers come from the functions that take whole logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..shims.device import get_device_name, keeping_casts
from ..shims.tensors import needs_gradient_of_entropy
from ..vendored.utils.torch_functional import entropy_from_logits, logprobs_from_logits

# What local.max_logits_mb=auto is. On a GPU each piece costs time of its own: its calls are started one by one, and the
# gradient of the last layer is read and written once more.
LOGITS_MB = {"cpu": 128, "cuda": 256}
BYTES = 4  # of a number, while a sum over the vocabulary is computed


class Asked(NamedTuple):
    """Says what the last layer is to compute in the place of logits.

    Attributes:
        labels: (bs, length), the token that follows each.
        temperature: that logits are divided by.
        entropy: whether entropies are wanted as well; else they are zeros.
    """

    labels: torch.Tensor
    temperature: float
    entropy: bool


class LogitsInPieces:
    """The last layer of a causal language model, which computes in pieces where it is asked to.

    Attributes:
        asked: of the next pass: its `logits` are then log-probabilities and entropies, (bs, length, 2). None: logits.
        tokens_at_once: how many tokens a piece has; 0: logits are always computed whole.

    Args:
        module: the model, placed where it computes; one with an adapter of peft as well.
        max_logits_mb: how many MiB the logits of one piece take at most; auto: what is usual on this device; None:
            they are always computed whole.
    """

    def __init__(self, module: Any, max_logits_mb: float | str | None) -> None:
        self.asked: Asked | None = None
        self._module, self._head = module, module.get_output_embeddings()
        self._usable: bool | None = None
        if max_logits_mb == "auto":
            max_logits_mb = LOGITS_MB["cuda" if get_device_name() == "cuda" else "cpu"]
        size = BYTES * module.config.get_text_config().vocab_size
        self.tokens_at_once = 0 if max_logits_mb is None else max(1, int(float(max_logits_mb) * 2**20) // size)
        if self._head is not None:
            # In the layer's own call: FSDP2 may gather its weights for each.
            self._whole, self._head.forward = self._head.forward, self.forward

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have passes take place within it, which all must enter; see first whether logits are what the layer gives."""
        if self._usable is None:
            self._usable = self._head is not None and self.tokens_at_once > 0 and self._has_plain_logits()
        try:
            yield
        finally:
            self.asked = None

    def wanted(self, tokens: int) -> bool:
        """Tell whether the logits of so many tokens are to be computed in pieces."""
        return bool(self._usable) and tokens > self.tokens_at_once

    @torch.no_grad()
    def _has_plain_logits(self) -> bool:
        """Have the last layer give large numbers, and see whether they arrive: some models scale or cap them."""
        given: list[torch.Tensor] = []

        def large(_module: nn.Module, _inputs: object, output: torch.Tensor) -> torch.Tensor:
            numbers = torch.linspace(-1000, 1000, output.shape[-1], device=output.device)
            given.append(numbers.to(output.dtype).expand_as(output))
            return given[-1].clone()

        hook, trained = self._head.register_forward_hook(large), self._module.training
        try:
            token = torch.zeros((1, 1), dtype=torch.long, device=self._module.get_input_embeddings().weight.device)
            logits = self._module.eval()(input_ids=token, attention_mask=token + 1, use_cache=False).logits
        finally:
            hook.remove()
            self._module.train(trained)
        return len(given) == 1 and torch.equal(given[0].float(), logits.float())

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Compute logits, or what is asked for of each token: its log-probability and entropy, (bs, length, 2)."""
        if self.asked is None:
            whole: torch.Tensor = self._whole(hidden)
            return whole
        labels, temperature, entropy = self.asked
        size, again = self.tokens_at_once, torch.is_grad_enabled() and hidden.requires_grad
        found = []
        with keeping_casts(True):  # of this layer's weights, which all pieces take
            for part in zip(hidden.flatten(0, 1).split(size), labels.flatten().split(size), strict=True):
                if again:  # a piece keeps nothing for its backward pass, which computes it again
                    rules = {"use_reentrant": False, "preserve_rng_state": False}
                    found.append(checkpoint(_of_piece, self._whole, *part, temperature, entropy, **rules))
                else:
                    found.append(_of_piece(self._whole, *part, temperature, entropy))
        return torch.stack([torch.cat(values) for values in zip(*found, strict=True)], -1).view(*labels.shape, 2)


@contextmanager
def in_use(pieces: LogitsInPieces | None, around: AbstractContextManager[Any]) -> Iterator[None]:
    """Have passes take place within `around`, and what computes logits in pieces, if there is such, in use."""
    if pieces is None:
        with around:
            yield
    else:
        with pieces.in_use(), around:
            yield


def _of_piece(
    head: Callable[..., torch.Tensor], hidden: torch.Tensor, labels: torch.Tensor, temperature: float, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log-probabilities and entropies of some tokens, both (tokens,); `hidden` is (tokens, hidden_size)."""
    logits = head(hidden)
    if temperature != 1.0:
        logits.div_(temperature)
    # The entropy comes last: where it is only reported, the backward pass does not compute it again.
    needed = entropy and needs_gradient_of_entropy()
    log_probs = logprobs_from_logits(logits, labels.to(logits.device), inplace_backward=not needed)
    return log_probs, entropy_from_logits(logits) if entropy else torch.zeros_like(log_probs.detach())
