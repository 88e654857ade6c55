# vextract:template - edit freely
"""The vendored critic."""

from ..vendored.workers.dp_critic import DataParallelPPOCritic
from .shared_forward import SharedForward


class SharedCritic(SharedForward, DataParallelPPOCritic):
    """Upstream's `DataParallelPPOCritic`, whose passes several processes compute together."""
