# vextract:template - edit freely; upgrades merge your edits
"""The rows of a nested tensor, joined in few calls."""

from __future__ import annotations

import torch


def joined_rows(nested: torch.Tensor) -> torch.Tensor:
    """The same bits as `torch.cat(nested.unbind())`, which takes several calls for each row.

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
