# vextract:template - edit freely
"""What a policy loss can ask for besides what verl hands it: `of_pass.get()["token_weight"]`."""

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch

from ..errors import DataError
from ..vendored.algorithms.core_algos import agg_loss, kl_penalty
from ..vendored.protocol import DataProto


class Columns(dict[str, Any]):
    """Columns of the rows whose loss is computed, (bs, ...); `entropy` is the policy's, (bs, response_length)."""

    def __missing__(self, name: str) -> Any:
        hint = "report it as a number with the reward, or add a column to the data"
        if name == "entropy":
            hint = "actor_rollout_ref.actor.calculate_entropy=true"
        raise DataError(f"a policy loss reads {name}, which the batch has not", hint)


of_pass: ContextVar[Columns] = ContextVar("of_pass")
of_update: ContextVar[dict[str, Any]] = ContextVar("of_update")  # what the batch has besides its columns


class WholeBatch(DataProto):
    """A batch of which upstream's actor selects every tensor, where it names some."""

    def select(self, batch_keys: Any = None, *others: Any, **more: Any) -> DataProto:
        """Select all tensors, and of the rest what is asked for."""
        return super().select(list(self.batch.keys()), *others, **more)


def with_numbers(data: DataProto) -> DataProto:
    """Return a batch with all tensors selected, and arrays of numbers, such as a reward reports, as (bs,) float32."""
    of_update.set(data.meta_info)
    arrays = {name: value for name, value in data.non_tensor_batch.items() if name not in data.batch.keys()}
    tensors = data.batch.copy()
    for name, value in arrays.items():
        try:
            tensors[name] = torch.as_tensor(value.astype("float32"), device=tensors.device)
        except (TypeError, ValueError):  # no numbers
            continue
    return WholeBatch(tensors, data.non_tensor_batch, data.meta_info)


def hand_over(columns: Any, entropy: torch.Tensor | None) -> None:
    """Set what the next loss can ask for.

    Args:
        columns: of its rows, by name.
        entropy: (bs, response_length); None: nothing has asked for it.
    """
    found = Columns(of_update.get(), **columns)
    of_pass.set(found if entropy is None else Columns(found, entropy=entropy))


def added_by_actor(
    config: Any, log_prob: torch.Tensor, response_mask: torch.Tensor, loss_agg_mode: str
) -> torch.Tensor | float:
    """Return the entropy and KL terms that the actor adds to a loss, for one that has its own to take off."""
    whole = getattr(config, "global_batch_info", None) or {}
    aggregate = partial(agg_loss, loss_mask=response_mask, loss_agg_mode=loss_agg_mode, **whole)
    found: torch.Tensor | float = 0.0
    if config.entropy_coeff != 0:
        found = -config.entropy_coeff * aggregate(of_pass.get()["entropy"])
    if config.use_kl_loss:
        kld = kl_penalty(log_prob, of_pass.get()["ref_log_prob"], config.kl_loss_type)
        found = found + config.kl_loss_coef * aggregate(kld)
    return found


def with_columns(
    loss: Callable[..., Any],
    padded: Callable[..., torch.Tensor],
    model_output: Any = None,
    data: Any = None,
    dp_group: Any = None,
    **others: Any,
) -> Any:
    """Compute a loss that can ask for columns.

    Args:
        loss: as the engine calls it, with the other arguments.
        padded: what makes (bs, response_length) of the model's outputs.
    """
    if model_output is not None:  # None: a distillation asks for the numbers of logits first
        entropy = model_output.get("entropy")
        hand_over(data, None if entropy is None else padded(entropy, data))
    return loss(model_output=model_output, data=data, dp_group=dp_group, **others)
