# vextract:template - edit freely
"""Sums over the vocabulary that need little memory and few calls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch

# Numbers that one call may hold at once: 64 MiB of float32, on a GPU 128 MiB, since each call takes time to start; and
# what of them a CPU has in its cache, or a few tokens.
NUMBERS_AT_ONCE, NUMBERS_ON_GPU, NUMBERS_IN_CACHE, FEWEST_TOKENS = 2**24, 2**25, 2**17, 4
_only_reported: ContextVar[bool] = ContextVar("only_reported", default=False)
_planned_for: ContextVar[str | None] = ContextVar("planned_for", default=None)


@contextlib.contextmanager
def planning_for(device: str) -> Iterator[None]:
    """Go through the vocabulary as on this device within it, cpu or cuda, wherever the tensors are."""
    token = _planned_for.set(device)
    try:
        yield
    finally:
        _planned_for.reset(token)


def _on_gpu(logits: torch.Tensor) -> bool:
    return (_planned_for.get() or logits.device.type) == "cuda"


def in_pieces(logits: torch.Tensor, values: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
    """Return pieces of the first dimension that hold few numbers.

    Args:
        logits: (bs, ..., vocab_size).
        values: (bs, ...), to be divided where the logits are; None: the logits themselves.
    """
    numbers = NUMBERS_ON_GPU if _on_gpu(logits) else NUMBERS_AT_ONCE
    rows = max(1, numbers // max(1, logits[0].numel())) if len(logits) else 1
    return (logits if values is None else values).split(rows)


def token_pieces(logits: torch.Tensor, *others: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield what belongs together of some tokens at a time: what a CPU's cache holds, on a GPU `NUMBERS_ON_GPU`.

    Args:
        logits: (..., vocab_size).
        others: (..., vocab_size) or (...), all contiguous.
    """
    if logits.dim() > 2 and not logits.is_contiguous():
        for parts in zip(logits, *others, strict=True):
            yield from token_pieces(*parts)
        return
    vocabulary = max(1, logits.shape[-1])
    numbers = NUMBERS_ON_GPU if _on_gpu(logits) else NUMBERS_IN_CACHE
    tokens = max(FEWEST_TOKENS, numbers // vocabulary)
    flat = [tensor.view(-1, vocabulary) if tensor.dim() == logits.dim() else tensor.view(-1) for tensor in others]
    yield from zip(*(tensor.split(tokens) for tensor in (logits.reshape(-1, vocabulary), *flat)), strict=True)


class _LogSumExp(torch.autograd.Function):
    """torch's logsumexp and its gradient, whose steps go through the vocabulary of a few tokens at a time."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        found = torch.empty(logits.shape[:-1], dtype=logits.dtype, device=logits.device)
        for piece, place in token_pieces(logits, found):
            torch.logsumexp(piece, dim=-1, out=place)
        ctx.save_for_backward(logits, found)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        logits, found = ctx.saved_tensors
        result = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        for piece, place, sums, gradient in token_pieces(logits, result, found, gradients[0].contiguous()):
            torch.sub(piece, sums.unsqueeze(-1), out=place).exp_().mul_(gradient.unsqueeze(-1))
        return result


def logsumexp_in_pieces(logits: torch.Tensor) -> torch.Tensor:
    """Compute `torch.logsumexp` over the last dimension, some tokens at a time.

    Args:
        logits: (bs, ..., vocab_size), float32 or float64.

    Returns:
        (bs, ...), what one row at a time gives, and so its gradient: bit for bit with one thread; with more of them
        torch may divide a long row among them, and its sum then differs in the last bits (2e-6 was seen, at a
        vocabulary of 151,936).
    """
    found: torch.Tensor = _LogSumExp.apply(logits)
    return found


class _LogProbsOfLabels(torch.autograd.Function):
    """torch's log_softmax and gather, and their gradients, of which nothing is kept that is as large as the logits."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        # On a GPU autocast has it computed in float32.
        widens = _planned_for.get() == "cuda" and torch.is_autocast_enabled("cpu")
        everything = torch.log_softmax(logits, dim=-1, dtype=torch.float32 if widens else None)
        ctx.dtype = everything.dtype
        ctx.save_for_backward(logits, labels)
        return everything.gather(-1, labels.unsqueeze(-1)).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, labels = ctx.saved_tensors
        everything = torch.log_softmax(logits, dim=-1, dtype=ctx.dtype)
        gradient = torch.zeros_like(everything).scatter_(-1, labels.unsqueeze(-1), gradients[0].unsqueeze(-1))
        found = torch.ops.aten._log_softmax_backward_data(gradient, everything, -1, ctx.dtype)
        del gradient, everything
        return found.to(logits.dtype), None


def log_probs_of_labels(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities of labels, by log_softmax, which the backward pass computes again: it is large.

    Args:
        logits: (bs, ..., vocab_size).
        labels: (bs, ...).

    Returns:
        (bs, ...) in the dtype that log_softmax computes in: that of the logits, or float32 where autocast wants it.
    """
    found: torch.Tensor = _LogProbsOfLabels.apply(logits, labels)
    return found


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
        found = torch.empty(logits.shape[:-1], dtype=logits.dtype, device=logits.device)
        for piece, place in token_pieces(logits, found):
            place.copy_(_entropy(piece))
        return found


def _entropy(logits: torch.Tensor) -> torch.Tensor:
    # In upstream's order: the backward pass adds up in the reverse of it, and sums depend on the order.
    probabilities = torch.nn.functional.softmax(logits, dim=-1)
    normaliser = torch.logsumexp(logits, dim=-1)
    return normaliser - torch.sum(probabilities * logits, dim=-1)
