# vextract:template - edit freely
"""Optimizer steps of a vendored actor, by a loss of whole responses."""

from collections.abc import Callable
from typing import Any

import torch

from ..vendored.protocol import DataProto
from ..vendored.utils.metric.utils import AggregationType, Metric
from ..vendored.workers.utils.padding import no_padding_2_padding
from .actor import Actor

OF_ROWS = ("outcomes", "rivals", "row_weights", "rows")


def update_by(losses: Callable[[torch.Tensor, Any], torch.Tensor], actor: Actor, data: DataProto) -> dict[str, Any]:
    """Train on a batch, by the mean of its responses' losses.

    Args:
        losses: is given log-probabilities, (rows, response_length), and the columns of these rows; returns (rows,).
        actor: the vendored actor.
        data: the rows whose passes this process takes part in, on the device; `meta_info` has the temperature.

    Returns:
        reward_model/dpo_loss and reward_model/grad_norm, a number for each optimizer step.
    """

    def loss_of_pass(
        config: Any, model_output: dict[str, Any], data: Any, dp_group: Any = None
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        columns = data.select("response_mask", "ref_log_prob", *OF_ROWS).to_padded_tensor()
        found = losses(no_padding_2_padding(model_output["log_probs"], data), columns)
        loss = found.sum() * data["dp_size"] / data["global_batch_size"]
        return loss, {"dpo_loss": Metric(value=loss, aggregation=AggregationType.SUM)}

    actor.loss = loss_of_pass
    metrics = actor.update_policy(data)
    return {f"reward_model/{name}": metrics[f"actor/{name}"] for name in ("dpo_loss", "grad_norm")}
