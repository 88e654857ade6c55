# vextract:template shims/multimodal.py - edit freely
"""Batches of texts alone: the feature `multimodal` is not in this project."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .not_vendored import FeatureNotVendored


def extract_multi_modal_inputs(batch_data: Iterable[Any], indices: Sequence[int] | None = None) -> dict[str, Any]:
    """Return what upstream's function returns for texts alone: no inputs besides them.

    Raises:
        FeatureNotVendored: a row has images, videos or sound.
    """
    for row in batch_data:
        inputs = getattr(row, "data", row) or {}
        if any(value is not None for value in inputs.values()):
            raise FeatureNotVendored(
                "the data have images, videos or sound, and this project was made without the feature `multimodal`\n"
                "hint: add it with `vextract add multimodal`, or leave them out"
            )
    return {}
