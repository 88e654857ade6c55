# vextract:template base/__package__/workers/actor.py - edit freely
"""The vendored engine with verl's losses, as the actor that the trainer knows."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..shims.logsumexp import only_reporting_entropy
from ..vendored.algorithms.losses import ppo_loss
from ..vendored.protocol import DataProto
from ..vendored.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from ..vendored.workers.utils.padding import no_padding_2_padding
from .local_engine import LocalEngine, named
from .logits import LogitsInPieces
from .pieces import PiecesOfEngine


class Actor:
    """Upstream's `FSDPEngineWithLMHead` and `ppo_loss`, around a model that is there already.

    With `noting_entropy` its next update takes the log-probabilities that it computes as the old ones, too, and notes
    the entropy: what is right where a batch is used for exactly one update, and what verl did up to 0.7.

    Attributes:
        passes: how its passes are shared between the processes.
        loss: what its updates minimise: upstream's `ppo_loss`, or another one that takes what that takes.
        loss_settings: what the engine is told besides, for such a loss.

    Args:
        config: the section of the config (actor or ref), with `use_remove_padding`.
        module: the model, on its device.
        optimizer: of what is trained; None: it is not trained.
        max_logits_mb: how many MiB logits may take; more are computed in pieces (see `LogitsInPieces`).
    """

    def __init__(
        self,
        config: Any,
        module: Any,
        optimizer: torch.optim.Optimizer | None = None,
        max_logits_mb: float | str | None = None,
    ) -> None:
        self.config = config
        self._pieces = LogitsInPieces.before(module, max_logits_mb)
        self.noting_entropy = False
        self.loss: Callable[..., Any] = ppo_loss
        self.loss_settings: dict[str, Any] = {}
        self._local = LocalEngine(
            FSDPEngineWithLMHead, config, module, optimizer, lambda engine: PiecesOfEngine(engine, self._pieces)
        )
        self.passes = self._local.passes
        self._engine = self._local.engine
        self._outputs = self._engine.prepare_model_outputs
        self._engine.prepare_model_outputs = self._model_outputs

    def outputs_for(self, data: DataProto, calculate_entropy: bool) -> dict[str, torch.Tensor]:
        """Return log_probs of the responses' tokens and, if asked for, entropys: (bs, response_length) float32."""
        self._pieces.prepare()
        squares = self.config.get("calculate_sum_pi_squared", False)
        outputs = self._local.infer(data, calculate_entropy=calculate_entropy, calculate_sum_pi_squared=squares)
        return {"entropys" if name == "entropy" else name: value for name, value in outputs.items()}

    def update_policy(self, data: DataProto) -> dict[str, Any]:
        """Train on a batch; returns upstream's metrics, named actor/*, each a list."""
        self._pieces.prepare()
        entropy = self.config.calculate_entropy or self.config.entropy_coeff != 0
        loss, found = partial(self.loss, self.config), dict[str, Any]()
        settings = {"calculate_entropy": entropy or self.noting_entropy, **self.loss_settings}
        with self._local.training(), only_reporting_entropy(self.config.entropy_coeff == 0):
            for batch in self._local.mini_batches(data, **settings):
                self._local.note(found, self._engine.train_batch(batch, loss_function=loss))
        metrics = named("actor/", found)
        if self.noting_entropy and "actor/entropy_loss" in metrics:
            metrics["actor/entropy"] = metrics["actor/entropy_loss"] if entropy else metrics.pop("actor/entropy_loss")
        return metrics

    def _model_outputs(self, output: Any, output_args: Any, micro_batch: Any, **settings: Any) -> Any:
        """Return what the model gave, by token; its log-probabilities are the old ones, too, if `noting_entropy`."""
        outputs = self._outputs(output, output_args, micro_batch, **settings)
        if self.noting_entropy and torch.is_grad_enabled() and "log_probs" in outputs:
            micro_batch["old_log_probs"] = no_padding_2_padding(outputs["log_probs"].detach(), micro_batch)
            if self.config.entropy_coeff == 0:  # it is only logged: no gradient may flow through it
                outputs["entropy"] = outputs["entropy"].detach()
        return outputs
