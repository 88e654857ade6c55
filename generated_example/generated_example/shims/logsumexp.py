# vextract:template shims/logsumexp.py - edit freely
"""Sums over the vocabulary that need little memory and few calls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch
from torch.utils.checkpoint import checkpoint

# Numbers that one call may hold at once: 64 MiB of float32.
NUMBERS_AT_ONCE = 2**24
_only_reported: ContextVar[bool] = ContextVar("only_reported", default=False)


def in_pieces(logits: torch.Tensor, values: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
    """Return pieces of the first dimension that hold few numbers.

    Args:
        logits: (bs, ..., vocab_size).
        values: (bs, ...), to be divided where the logits are; None: the logits themselves.
    """
    rows = max(1, NUMBERS_AT_ONCE // max(1, logits[0].numel())) if len(logits) else 1
    return (logits if values is None else values).split(rows)


def logsumexp_in_pieces(logits: torch.Tensor) -> torch.Tensor:
    """Compute `torch.logsumexp` over the last dimension, a piece of the first one at a time.

    Args:
        logits: (bs, ..., vocab_size), float32 or float64.

    Returns:
        (bs, ...), what one row at a time gives: bit for bit with one thread; with more of them torch may divide a long
        row among them, and its sum then differs in the last bits (2e-6 was seen, at a vocabulary of 151,936).
    """
    return torch.cat([torch.logsumexp(piece, dim=-1) for piece in in_pieces(logits)])


def log_probs_of_labels(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities of labels, by log_softmax, which the backward pass computes again: it is large.

    Args:
        logits: (bs, ..., vocab_size).
        labels: (bs, ...).

    Returns:
        (bs, ...) in the dtype of the logits.
    """
    if not (torch.is_grad_enabled() and logits.requires_grad):
        return _log_probs_of_labels(logits, labels)
    found: torch.Tensor = checkpoint(
        _log_probs_of_labels, logits, labels, use_reentrant=False, preserve_rng_state=False
    )
    return found


def _log_probs_of_labels(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)


@contextlib.contextmanager
def only_reporting_entropy(reports: bool = True) -> Iterator[None]:
    """Compute entropies without their gradient within it, if so asked."""
    token = _only_reported.set(reports)
    try:
        yield
    finally:
        _only_reported.reset(token)


def entropy_from_logits(logits: torch.Tensor) -> torch.Tensor:
    """Return the entropy of each distribution: logsumexp(x) - sum(softmax(x) * x).

    Args:
        logits: (bs, ..., vocab_size).

    Returns:
        (bs, ...). Where nothing asks for its gradient it is computed piece by piece.
    """
    if torch.is_grad_enabled() and logits.requires_grad and not _only_reported.get():
        return _entropy(logits)
    with torch.no_grad():
        return torch.cat([_entropy(piece) for piece in in_pieces(logits)]) if len(logits) else _entropy(logits)


def _entropy(logits: torch.Tensor) -> torch.Tensor:
    # In upstream's order: the backward pass adds up in the reverse of it, and sums depend on the order.
    probabilities = torch.nn.functional.softmax(logits, dim=-1)
    normaliser = torch.logsumexp(logits, dim=-1)
    return normaliser - torch.sum(probabilities * logits, dim=-1)
