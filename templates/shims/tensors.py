# vextract:template - edit freely
"""Rows, nested tensors and groups of a batch, in few calls; entropies without a gradient."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from tensordict import TensorDict

from .not_vendored import FeatureNotVendored

# Numbers over the vocabulary that one call may hold: 128 MiB of float32.
NUMBERS_AT_ONCE = 2**25
# Whether entropies are only reported: then they have no gradient.
ENTROPY_IS_REPORTED: ContextVar[bool] = ContextVar("entropy_is_reported", default=False)

try:
    from flash_attn.bert_padding import index_first_axis, pad_input, unpad_input
except ImportError:  # the same results in plain torch

    def index_first_axis(input: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        """Select rows: (first, ...) and (total,) int64 -> (total, ...)."""
        return input[indices]

    def unpad_input(hidden_states: torch.Tensor, attention_mask: torch.Tensor) -> tuple[Any, ...]:
        """Drop the padding of a batch, (batch, seqlen, ...), by its mask, (batch, seqlen).

        Returns:
            The real tokens (total, ...); their places in the flattened batch, (total,) int64; cumulative sequence
            lengths, (batch + 1,) int32; the longest sequence; the length of each sequence, (batch,) int32.
        """
        lengths = attention_mask.sum(dim=-1, dtype=torch.int32)
        indices = torch.nonzero(attention_mask.flatten(), as_tuple=False).flatten()
        cumulative = torch.nn.functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
        return hidden_states.flatten(0, 1)[indices], indices, cumulative, int(lengths.max()), lengths

    def pad_input(hidden_states: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int) -> torch.Tensor:
        """Put real tokens (total, ...) back into a zero-padded batch (batch, seqlen, ...)."""
        padded = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
        return padded.index_copy(0, indices, hidden_states).unflatten(0, (batch, seqlen))


def rearrange(tensor: torch.Tensor, pattern: str, **sizes: Any) -> torch.Tensor:
    """Give a tensor other axes, as einops does it, which is imported where it is called."""
    import einops

    return einops.rearrange(tensor, pattern, **sizes)


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


def sizes_of_batch(config: Any, data: Any) -> dict[str, Any]:
    """Return what the mean over a batch is taken by, having noted it where the losses look.

    Args:
        config: the actor's.
        data: a pass, with what the engine notes in it.
    """
    noted: dict[str, Any] = config.global_batch_info
    noted.update({name: data[name] for name in ("dp_size", "batch_num_tokens", "global_batch_size")})
    noted["loss_scale_factor"] = config.loss_scale_factor
    return noted


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
    assert not rest, f"a batch of {len(td)} rows cannot be divided into {chunks} equal parts"
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


def needs_gradient_of_entropy() -> bool:
    """Tell whether entropies are computed with their gradient."""
    return torch.is_grad_enabled() and not ENTROPY_IS_REPORTED.get()


def in_pieces(function: Callable[..., torch.Tensor], logits: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    """Return what a function gives for each token, (bs, ...), of some tokens at a time: as a batch of one row.

    Args:
        function: takes logits (1, tokens, vocab_size), and the others.
        logits: (bs, ..., vocab_size).
        others: (bs, ...).
    """
    if logits.dim() > 2 and not logits.is_contiguous():  # to join its rows would copy them
        return torch.stack([in_pieces(function, *row) for row in zip(logits, *others, strict=True)])
    tokens = max(1, NUMBERS_AT_ONCE // logits.shape[-1])
    parts = (tensor.flatten(0, logits.dim() - 2).split(tokens) for tensor in (logits, *others))
    found = [function(*(part.unsqueeze(0) for part in piece)).squeeze(0) for piece in zip(*parts, strict=True)]
    return torch.cat(found).view(logits.shape[:-1])


def entropy_from_logits(logits: torch.Tensor) -> torch.Tensor:
    """Return the entropy of each distribution, (bs, ...); without a gradient, in pieces, where it is only reported."""
    if needs_gradient_of_entropy():
        return _entropy(logits)
    with torch.no_grad():
        return in_pieces(_entropy, logits)


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
