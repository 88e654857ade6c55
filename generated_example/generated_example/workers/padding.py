# vextract:template base/__package__/workers/padding.py - edit freely
"""Columns that are padding in every row: no pass needs to compute them."""

from collections.abc import Mapping
from typing import Any

import torch

WHOLE_SEQUENCE = ("input_ids", "attention_mask", "position_ids")


def common_left_padding(attention_mask: torch.Tensor, prompt_length: int) -> int:
    """Count the columns on the left that are padding in every row; a prompt's last column always counts as used.

    Args:
        attention_mask: (bs, prompt_length or more), 0 on padding.
        prompt_length: the first so many columns hold the prompts.
    """
    used = attention_mask[:, : prompt_length - 1].any(dim=0)
    return int(used.int().argmax()) if used.any() else prompt_length - 1


def without_common_padding(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a micro-batch without the columns on the left that are padding in every row.

    Args:
        batch: input_ids, attention_mask, (bs, prompt_length + response_length), position_ids of that shape or with a
            further dimension in the middle, responses (bs, response_length), and whatever else, which stays as it is.
    """
    prompt_length = batch["input_ids"].shape[-1] - batch["responses"].shape[-1]
    first = common_left_padding(batch["attention_mask"], prompt_length)
    return {name: value[..., first:] if name in WHOLE_SEQUENCE else value for name, value in batch.items()}
