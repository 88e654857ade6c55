# vextract:template shims/tensors.py - edit freely
"""Rows, nested tensors and groups of a batch, in few calls; sums over the vocabulary that need little memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from tensordict import TensorDict

from .not_vendored import FeatureNotVendored

# Numbers that one call may hold at once: on a GPU 128 MiB of float32, since each call takes time to start; on a CPU
# what it has in its cache, or a few tokens.
NUMBERS_ON_GPU, NUMBERS_IN_CACHE, FEWEST_TOKENS = 2**25, 2**17, 4
# Whether entropies are only reported: then they have no gradient.
ENTROPY_IS_REPORTED: ContextVar[bool] = ContextVar("entropy_is_reported", default=False)
# Whether the gradient of half-precision logits takes their place. Nothing else may need them in the backward pass.
GIVING_UP_LOGITS: ContextVar[bool] = ContextVar("giving_up_logits", default=False)
# The device that a plan is for, cpu or cuda, wherever the tensors are.
PLANNED_FOR: ContextVar[str | None] = ContextVar("planned_for", default=None)


def scores_by_group(scores: torch.Tensor, index: Sequence[Hashable]) -> dict[Hashable, list[torch.Tensor]]:
    """Return the scores of each group, (bs,) by (bs,), in the order of their rows: tensors of the shape ()."""
    groups: dict[Hashable, list[torch.Tensor]] = {}
    for group, score in zip(index, scores.unbind(), strict=True):
        groups.setdefault(group, []).append(score)
    return groups


def for_each_row(
    by_group: Mapping[Hashable, torch.Tensor], index: Sequence[Hashable], scores: torch.Tensor
) -> torch.Tensor:
    """Return for each row what its group has: (bs,), of the device and the type of `scores`, (bs,).

    Args:
        by_group: tensors of the shape ().
        index: (bs,), the group of each row.
    """
    places = {group: place for place, group in enumerate(by_group)}
    values = torch.stack([value.to(scores) for value in by_group.values()])
    return values[[places[group] for group in index]]


def mean_over_batch(losses: torch.Tensor, config: Any) -> torch.Tensor:
    """Return a pass's part of the mean over the responses of the batch: what all passes add up to.

    Args:
        losses: of the responses of the pass, (bs,).
        config: the actor's; in `global_batch_info` the engine notes how many responses the batch has, and how many
            processes compute passes of it. Where it has noted nothing, the pass is the batch.
    """
    batch = config.get("global_batch_info") or {}
    size = batch.get("global_batch_size")
    if size is None:
        return torch.mean(losses)
    return losses.sum() / size * batch.get("dp_size", 1)


def joined_rows(nested: torch.Tensor) -> torch.Tensor:
    """Return the bits of `torch.cat(nested.unbind())`: (total tokens, ...) of (bs, j, ...), with holes or without."""
    values, offsets, lengths = nested.values(), nested.offsets(), nested.lengths()
    if lengths is None:
        return values
    gaps = offsets[:-1] - (lengths.cumsum(0) - lengths)
    places = gaps.repeat_interleave(lengths)
    return values[places + torch.arange(len(places), device=places.device)]


def cut_rows(values: torch.Tensor, ends: torch.Tensor, lengths: torch.Tensor, width: int) -> torch.Tensor:
    """Cut rows out of joined ones, each padded to `width` with zeros: (bs, width, ...).

    Args:
        values: (total tokens, ...).
        ends, lengths: (bs,), where the tokens of each row end in `values`, and how many they are.
    """
    places = torch.arange(width, device=values.device)
    real = places < lengths.unsqueeze(1)
    rows = values.new_zeros(len(lengths), width, *values.shape[1:])
    rows[real] = values[((ends - lengths).unsqueeze(1) + places)[real]]
    return rows


def kept_columns(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the columns of each row that a mask keeps: nested, (bs, j) or (bs, n, j).

    Args:
        values: (bs, width), or (bs, n, width) where a token has several values.
        mask: (bs, width), 0 where a column is left out.
    """
    kept = mask.bool()
    offsets = torch.nn.functional.pad(kept.sum(-1).cumsum(0), (1, 0))
    if values.dim() == 2:
        return torch.nested.nested_tensor_from_jagged(values[kept], offsets)
    return torch.nested.nested_tensor_from_jagged(values.transpose(0, 1)[:, kept], offsets, jagged_dim=2)


def chunk_tensordict(td: TensorDict, chunks: int) -> list[TensorDict]:
    """Divide a batch into equal parts, each a view of it; what is nested, without holes, as well."""
    size, rest = divmod(len(td), chunks)
    if rest:
        raise ValueError(f"a batch of {len(td)} rows cannot be divided into {chunks} equal parts")
    nested = {name: value for name, value in td.items() if isinstance(value, torch.Tensor) and value.is_nested}
    parts = list(td.exclude(*nested).chunk(chunks))
    for name, value in nested.items():
        ragged = getattr(value, "_ragged_idx", 1)
        for first, part in zip(range(0, len(td), size), parts, strict=True):
            offsets = value.offsets()[first : first + size + 1]
            own = value.values().narrow(ragged - 1, int(offsets[0]), int(offsets[-1] - offsets[0]))
            part[name] = torch.nested.nested_tensor_from_jagged(own, offsets - offsets[0], jagged_dim=ragged)
    return parts


@contextlib.contextmanager
def having(variable: ContextVar[Any], value: object) -> Iterator[None]:
    """Have one of these variables be `value` within it."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


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
    vocabulary, device = max(1, logits.shape[-1]), PLANNED_FOR.get() or logits.device.type
    tokens = max(FEWEST_TOKENS, (NUMBERS_ON_GPU if device == "cuda" else NUMBERS_IN_CACHE) // vocabulary)
    flat = [tensor.view(-1, vocabulary) if tensor.dim() == logits.dim() else tensor.view(-1) for tensor in others]
    yield from zip(*(tensor.split(tokens) for tensor in (logits.reshape(-1, vocabulary), *flat)), strict=True)


class _LogSumExp(torch.autograd.Function):
    """`torch.logsumexp` over the last dimension of (bs, ..., vocab_size), float32 or float64, a few tokens at a time.

    It is what one row at a time gives, and so its gradient: bit for bit with one thread. With more of them torch may
    divide a long row among them, and its sum then differs in the last bits (by 2e-6 at a vocabulary of 151,936).
    """

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


class _LogProbsOfLabels(torch.autograd.Function):
    """The log-probabilities of labels, (bs, ...), of logits (bs, ..., vocab_size), a few tokens at a time.

    They have the logits' dtype, or float32 where autocast wants it. The backward pass computes the softmax again.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        labels = labels.contiguous()
        # On a GPU autocast has it computed in float32.
        widens = PLANNED_FOR.get() == "cuda" and torch.is_autocast_enabled("cpu")
        found = []
        for piece, ids in token_pieces(logits, labels):
            everything = torch.log_softmax(piece, dim=-1, dtype=torch.float32 if widens else None)
            found.append(everything.gather(-1, ids.unsqueeze(-1)).squeeze(-1))
        ctx.dtype, ctx.gives_up = found[0].dtype, GIVING_UP_LOGITS.get() and logits.is_contiguous()
        ctx.save_for_backward(logits, labels)
        return torch.cat(found).view(labels.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, labels = ctx.saved_tensors
        result = logits if ctx.gives_up else torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        for piece, place, ids, given in token_pieces(logits, result, labels, gradients[0].contiguous()):
            everything = torch.log_softmax(piece, dim=-1, dtype=ctx.dtype)
            gradient = torch.zeros_like(everything).scatter_(-1, ids.unsqueeze(-1), given.unsqueeze(-1))
            place.copy_(torch.ops.aten._log_softmax_backward_data(gradient, everything, -1, ctx.dtype))
        return result, None


logsumexp_in_pieces: Callable[[torch.Tensor], torch.Tensor] = _LogSumExp.apply
log_probs_of_labels: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = _LogProbsOfLabels.apply


def entropy_from_logits(logits: torch.Tensor) -> torch.Tensor:
    """Return the entropy of each distribution, (bs, ...); piece by piece where nothing asks for its gradient."""
    if torch.is_grad_enabled() and not ENTROPY_IS_REPORTED.get() and logits.requires_grad:
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


def extract_multi_modal_inputs(batch_data: Iterable[Any], indices: Sequence[int] | None = None) -> dict[str, Any]:
    """Return what upstream's function returns for texts alone: no inputs besides them.

    Raises:
        FeatureNotVendored: a row has images, videos or sound.
    """
    for row in batch_data:
        if any(value is not None for value in (getattr(row, "data", row) or {}).values()):
            raise FeatureNotVendored(
                "the data have images, videos or sound, and this project was made without the feature `multimodal`\n"
                "hint: add it with `vextract add multimodal`, or leave them out"
            )
    return {}
