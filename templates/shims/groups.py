# vextract:template - edit freely
"""The scores of groups, taken out of a batch and spread over its rows in few calls."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import torch


def scores_by_group(scores: torch.Tensor, index: Sequence[Hashable]) -> dict[Hashable, list[torch.Tensor]]:
    """Return the scores of each group, in the order of their rows.

    Args:
        scores: (bs,).
        index: (bs,), the group of each row.

    Returns:
        Tensors of the shape ().
    """
    groups: dict[Hashable, list[torch.Tensor]] = {}
    for group, score in zip(index, scores.unbind(), strict=True):
        groups.setdefault(group, []).append(score)
    return groups


def for_each_row(
    by_group: Mapping[Hashable, torch.Tensor], index: Sequence[Hashable], scores: torch.Tensor
) -> torch.Tensor:
    """Return for each row what its group has.

    Args:
        by_group: tensors of the shape (), on whatever device and of whatever type.
        index: (bs,), the group of each row.
        scores: (bs,), whose device and type the result gets.

    Returns:
        (bs,).
    """
    places = {group: place for place, group in enumerate(by_group)}
    values = torch.stack([value.to(scores) for value in by_group.values()])
    return values[[places[group] for group in index]]
