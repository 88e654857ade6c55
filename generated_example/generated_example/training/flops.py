# vextract:template base/__package__/training/flops.py - edit freely
"""The place of the count of floating point operations, in a project that was created without it."""

from typing import Any

from torch import nn

from ..vendored.protocol import DataProto


def flops_metrics(
    role: str, module: nn.Module, batch: DataProto, seconds: float, epochs: int, world_size: int
) -> dict[str, Any]:
    """Return no metrics."""
    return {}
