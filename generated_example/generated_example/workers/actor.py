# vextract:template base/__package__/workers/actor.py - edit freely
"""The vendored engine with verl's losses, as the actor that the trainer knows."""

from typing import Any

import torch

from ..vendored.algorithms.losses import ppo_loss
from ..vendored.protocol import DataProto
from ..vendored.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from ..vendored.workers.utils.padding import no_padding_2_padding
from .local_engine import LocalEngine, named


class Actor(LocalEngine, FSDPEngineWithLMHead):
    """Upstream's `FSDPEngineWithLMHead` and `ppo_loss`, around a model that is there already.

    With `noting_entropy` its next update takes the log-probabilities that it computes as the old ones, too, and notes
    the entropy: what is right where a batch is used for exactly one update, and what verl did up to 0.7.
    """

    noting_entropy = False

    def outputs_for(self, data: DataProto, calculate_entropy: bool) -> dict[str, torch.Tensor]:
        """log_probs of the responses' tokens and, if asked for, entropys: (bs, response_length) float32."""
        squares = self.config.get("calculate_sum_pi_squared", False)
        outputs = self.infer(data, calculate_entropy=calculate_entropy, calculate_sum_pi_squared=squares)
        return {"entropys" if name == "entropy" else name: value for name, value in outputs.items()}

    def update_policy(self, data: DataProto) -> dict[str, Any]:
        """Train on a batch; returns upstream's metrics, named actor/*, each a list."""
        entropy = self.config.calculate_entropy or self.config.entropy_coeff != 0
        loss = _on_policy_loss if self.noting_entropy else ppo_loss
        metrics = named("actor/", self.train(data, loss, calculate_entropy=entropy or self.noting_entropy))
        if self.noting_entropy:
            metrics["actor/entropy"] = metrics["actor/entropy_loss"] if entropy else metrics.pop("actor/entropy_loss")
        return metrics


def _on_policy_loss(config: Any, model_output: dict[str, torch.Tensor], data: Any, **settings: Any) -> Any:
    """verl's loss, with the log-probabilities of this very pass as the old ones."""
    data["old_log_probs"] = no_padding_2_padding(model_output["log_probs"].detach(), data)
    if config.entropy_coeff == 0:  # it is only logged: no gradient may flow through it
        model_output["entropy"] = model_output["entropy"].detach()
    return ppo_loss(config, model_output=model_output, data=data, **settings)
