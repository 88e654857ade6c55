# vextract:template base/__package__/workers/value_model.py - edit freely
"""The place of the critic, in a project that was created without one."""

from typing import Any

from ..errors import ConfigError
from ..run.distributed import Ranks
from ..vendored.protocol import DataProto
from .trained_model import TrainedModel


class Critic(TrainedModel):
    """Stand for the critic in a project that was made without one."""

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, path: str | None, total_steps: int) -> None:
        raise ConfigError(
            "algorithm.adv_estimator=gae needs a critic, and this project was created without one",
            "vextract upgrade --algorithm ppo, or --with critic; or choose another estimator, such as grpo",
        )

    def compute_values(self, batch: DataProto) -> DataProto:
        """Raise an error: this is never called."""
        raise NotImplementedError

    def update(self, batch: DataProto) -> dict[str, Any]:
        """Raise an error: this is never called."""
        raise NotImplementedError
