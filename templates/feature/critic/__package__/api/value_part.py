# vextract:template - edit freely
"""The critic without a trainer."""

from contextlib import ExitStack
from typing import Any

from ..vendored.protocol import DataProto
from ..workers.value_model import Critic
from .parts import Trained


class LocalCritic(Trained):
    """The model that estimates values.

    Attributes:
        module: the model of transformers.
    """

    def _build(self, around: ExitStack) -> None:
        self.critic = Critic(self.config, self.tokenizer, self.ranks, self._path, self._total_steps or 1)
        self.module = self.critic.module

    def compute_values(self, batch: DataProto) -> DataProto:
        """Compute the value at each response token: values, (bs, response_length) float32."""
        return self.ranks.spread(self.critic.compute_values, batch)

    def update(self, batch: DataProto) -> dict[str, Any]:
        """Train on a batch, once: all its mini-batches, ppo_epochs times.

        Args:
            batch: with values, returns and response_mask, all (bs, response_length).

        Returns:
            Metrics by upstream's names: critic/...
        """
        return self._update(self.critic, "critic", self.config.critic.optim, batch)
