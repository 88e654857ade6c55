# vextract:template shims/nested_rows.py - edit freely
"""The rows of nested tensors, joined, cut and divided in few calls."""

from __future__ import annotations

import torch
from tensordict import TensorDict


def joined_rows(nested: torch.Tensor) -> torch.Tensor:
    """Return the same bits as `torch.cat(nested.unbind())`, which takes several calls for each row.

    Args:
        nested: (bs, j, ...), with holes between its rows or without.

    Returns:
        (total tokens, ...).
    """
    values, offsets, lengths = nested.values(), nested.offsets(), nested.lengths()
    if lengths is None:
        return values
    gaps = offsets[:-1] - (lengths.cumsum(0) - lengths)
    places = gaps.repeat_interleave(lengths)
    return values[places + torch.arange(len(places), device=places.device)]


def cut_rows(values: torch.Tensor, ends: torch.Tensor, lengths: torch.Tensor, width: int) -> torch.Tensor:
    """Cut rows out of joined ones, each padded to `width` with zeros.

    Args:
        values: (total tokens, ...).
        ends, lengths: (bs,), where the tokens of each row end in `values`, and how many they are.

    Returns:
        (bs, width, ...).
    """
    places = torch.arange(width, device=values.device)
    real = places < lengths.unsqueeze(1)
    rows = values.new_zeros(len(lengths), width, *values.shape[1:])
    rows[real] = values[((ends - lengths).unsqueeze(1) + places)[real]]
    return rows


def kept_columns(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the columns of each row that a mask keeps, as a nested tensor.

    Args:
        values: (bs, width), or (bs, n, width) where a token has several values.
        mask: (bs, width), 0 where a column is left out.

    Returns:
        (bs, j), or (bs, n, j).
    """
    kept = mask.bool()
    offsets = torch.nn.functional.pad(kept.sum(-1).cumsum(0), (1, 0))
    if values.dim() == 2:
        return torch.nested.nested_tensor_from_jagged(values[kept], offsets)
    return torch.nested.nested_tensor_from_jagged(values.transpose(0, 1)[:, kept], offsets, jagged_dim=2)


def chunk_tensordict(td: TensorDict, chunks: int) -> list[TensorDict]:
    """Divide a batch into equal parts, each a view of it; what is nested as well."""
    size, rest = divmod(len(td), chunks)
    if rest:
        raise ValueError(f"a batch of {len(td)} rows cannot be divided into {chunks} equal parts")
    nested = {name: value for name, value in td.items() if isinstance(value, torch.Tensor) and value.is_nested}
    parts = list(td.exclude(*nested).chunk(chunks))
    for name, value in nested.items():
        for place, part in zip(range(0, len(td), size), parts, strict=True):
            part[name] = _rows_of(value, place, size)
    return parts


def _rows_of(nested: torch.Tensor, first: int, count: int) -> torch.Tensor:
    """Return some neighbouring rows of a nested tensor without holes."""
    ragged = getattr(nested, "_ragged_idx", 1)
    offsets = nested.offsets()[first : first + count + 1]
    axis = ragged - 1
    values = nested.values().narrow(axis, int(offsets[0]), int(offsets[-1] - offsets[0]))
    return torch.nested.nested_tensor_from_jagged(values, offsets - offsets[0], jagged_dim=ragged)
