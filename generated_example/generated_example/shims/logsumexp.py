# vextract:template shims/logsumexp.py - edit freely
"""A sum over the vocabulary that needs little memory and few calls."""

from __future__ import annotations

import torch

# Numbers that one call may hold at once: 64 MiB of float32.
NUMBERS_AT_ONCE = 2**24


def logsumexp_in_pieces(logits: torch.Tensor) -> torch.Tensor:
    """`torch.logsumexp` over the last dimension, a piece of the first one at a time.

    Args:
        logits: (bs, ..., vocab_size), float32 or float64.

    Returns:
        (bs, ...), what one row at a time gives: bit for bit with one thread; with more of them torch may divide a long
        row among them, and its sum then differs in the last bits (2e-6 was seen, at a vocabulary of 151,936).
    """
    rows = max(1, NUMBERS_AT_ONCE // max(1, logits[0].numel())) if len(logits) else 1
    return torch.cat([torch.logsumexp(piece, dim=-1) for piece in logits.split(rows)])
