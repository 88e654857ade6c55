# vextract:template base/__package__/training/balance.py - edit freely
"""The place of batch balancing, in a project that was created without it."""

from ..errors import ConfigError
from ..vendored.protocol import DataProto


def balance_batch(batch: DataProto, world_size: int) -> dict[str, float]:
    """Refuse: this project was made without it."""
    raise ConfigError(
        "trainer.balance_batch=true, and this project was created without it",
        "leave trainer.balance_batch out, or: vextract upgrade --with dynamic_bsz",
    )
