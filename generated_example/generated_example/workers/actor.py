# vextract:template base/__package__/workers/actor.py - edit freely
"""The vendored engine with verl's losses, as the actor that the trainer knows."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..shims.logsumexp import ENTROPY_IS_REPORTED, having
from ..vendored.algorithms.losses import ppo_loss
from ..vendored.protocol import DataProto
from ..vendored.utils import tensordict_utils as tu
from ..vendored.workers.utils.padding import no_padding_2_padding
from .local_engine import LocalEngine, named, used_tokens
from .logits import Asked, LogitsInPieces

NEEDS_LOGITS = ("calculate_sum_pi_squared", "distillation_use_topk")


class Actor(LocalEngine):
    """Upstream's `FSDPEngineWithLMHead` and `ppo_loss`, around a model that is there already.

    With `noting_entropy` its next update takes the log-probabilities that it computes as the old ones, too, and notes
    the entropy: what is right where a batch is used for exactly one update, and what verl did up to 0.7.

    Attributes:
        loss: what its updates minimise: upstream's `ppo_loss`, or another one that takes what that takes.
        loss_settings: what the engine is told besides, for such a loss.

    Args:
        config, module, optimizer: see `LocalEngine`.
        max_logits_mb: how many MiB logits may take; more are computed in pieces (see `LogitsInPieces`).
    """

    def __init__(
        self,
        config: Any,
        module: Any,
        optimizer: torch.optim.Optimizer | None = None,
        max_logits_mb: float | str | None = None,
    ) -> None:
        super().__init__(config, module, optimizer)
        self.pieces = LogitsInPieces(module, max_logits_mb)
        self.noting_entropy = False
        self.loss: Callable[..., Any] = ppo_loss
        self.loss_settings: dict[str, Any] = {}

    def outputs_for(self, data: DataProto, calculate_entropy: bool) -> dict[str, torch.Tensor]:
        """Return log_probs of the responses' tokens and, if asked for, entropys: (bs, response_length) float32."""
        squares = self.config.get("calculate_sum_pi_squared", False)
        with self.pieces:
            outputs = self.infer(data, calculate_entropy=calculate_entropy, calculate_sum_pi_squared=squares)
        return {"entropys" if name == "entropy" else name: value for name, value in outputs.items()}

    def update_policy(self, data: DataProto) -> dict[str, Any]:
        """Train on a batch; returns upstream's metrics, named actor/*, each a list."""
        entropy = self.config.calculate_entropy or self.config.entropy_coeff != 0
        loss, found = partial(self.loss, self.config), dict[str, Any]()
        settings = {"calculate_entropy": entropy or self.noting_entropy, **self.loss_settings}
        with self.pieces, self.training(), having(ENTROPY_IS_REPORTED, self.config.entropy_coeff == 0):
            for batch in self.mini_batches(data, **settings):
                self.note(found, self.train_batch(batch, loss_function=loss))
        metrics = named("actor/", found)
        if self.noting_entropy and "actor/entropy_loss" in metrics:
            metrics["actor/entropy"] = metrics["actor/entropy_loss"] if entropy else metrics.pop("actor/entropy_loss")
        return metrics

    def own_inputs(self, micro_batch: Any) -> Any:
        """Return what the model takes; where logits would be too large, its last layer is asked for less."""
        inputs, output_args = super().own_inputs(micro_batch)
        tokens = inputs["input_ids"]
        needs_logits = any(tu.get_non_tensor_data(micro_batch, name, False) for name in NEEDS_LOGITS)
        self.pieces.asked = None
        if self.pieces.wanted(tokens.numel()) and not needs_logits:
            labels = torch.roll(tokens, shifts=-1, dims=-1)
            if tokens.shape[0] == 1 and "input_ids_rmpad_rolled" in output_args:
                labels = output_args["input_ids_rmpad_rolled"].unsqueeze(0)
            entropy = tu.get_non_tensor_data(micro_batch, "calculate_entropy", False)
            self.pieces.asked = Asked(labels, float(micro_batch["temperature"]), entropy)
        return inputs, output_args

    def own_outputs(self, output: Any, output_args: Any, micro_batch: Any, **settings: Any) -> Any:
        """Return what the model gave, by token, as the engine does: nested, (bs, j)."""
        if self.pieces.asked is None:
            return super().own_outputs(output, output_args, micro_batch, **settings)
        offsets = micro_batch["input_ids"].offsets()
        log_probs, entropy = used_tokens(output.logits, offsets).unbind(-1)
        found = {"log_probs": log_probs, "entropy": entropy} if self.pieces.asked.entropy else {"log_probs": log_probs}
        return {name: torch.nested.nested_tensor_from_jagged(value, offsets) for name, value in found.items()}

    def prepare_model_outputs(self, output: Any, output_args: Any, micro_batch: Any, **settings: Any) -> Any:
        """Return what the model gave, by token; its log-probabilities are the old ones, too, if `noting_entropy`."""
        outputs = super().prepare_model_outputs(output, output_args, micro_batch, **settings)
        if self.noting_entropy and torch.is_grad_enabled() and "log_probs" in outputs:
            micro_batch["old_log_probs"] = no_padding_2_padding(outputs["log_probs"].detach(), micro_batch)
            if self.config.entropy_coeff == 0:  # it is only logged: no gradient may flow through it
                outputs["entropy"] = outputs["entropy"].detach()
        return outputs
