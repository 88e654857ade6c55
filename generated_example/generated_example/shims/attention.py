# vextract:template shims/attention.py - edit freely
"""Packing a padded batch into one row of real tokens and back: flash-attn where it is installed, plain torch elsewhere.

The functions have flash-attn's signatures (`flash_attn.bert_padding`), and the same results.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:
    from flash_attn.bert_padding import index_first_axis, pad_input, unpad_input
except ImportError:

    def index_first_axis(input: Tensor, indices: Tensor) -> Tensor:
        """Select rows: (first, ...) and (total,) int64 -> (total, ...)."""
        return input[indices]

    def unpad_input(hidden_states: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor, int, Tensor]:
        """Drop the padding of a batch.

        Args:
            hidden_states: (batch, seqlen, ...).
            attention_mask: (batch, seqlen), 1 or True for a real token.

        Returns:
            The real tokens (total, ...); their places in the flattened batch, (total,) int64; cumulative sequence
            lengths, (batch + 1,) int32; the longest sequence; the length of each sequence, (batch,) int32.
        """
        lengths = attention_mask.sum(dim=-1, dtype=torch.int32)
        indices = torch.nonzero(attention_mask.flatten(), as_tuple=False).flatten()
        cumulative = torch.nn.functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
        return hidden_states.flatten(0, 1)[indices], indices, cumulative, int(lengths.max()), lengths

    def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
        """Put real tokens (total, ...) back into a zero-padded batch (batch, seqlen, ...)."""
        padded = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
        padded = padded.index_copy(0, indices, hidden_states)
        return padded.unflatten(0, (batch, seqlen))


def rearrange(tensor: Tensor, pattern: str, **sizes: Any) -> Tensor:
    """Give a tensor other axes, as einops does it, which is imported where it is called."""
    import einops

    return einops.rearrange(tensor, pattern, **sizes)


__all__ = ["index_first_axis", "pad_input", "rearrange", "unpad_input"]
