# vextract:template - edit freely
"""What a policy loss can ask for besides what verl hands it: `of_pass.get()["token_weight"]`."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from hashlib import md5
from typing import Any

import numpy as np
import torch

from ..errors import ConfigError, DataError
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


# Functions that make columns of the logits of a pass; see `of_logits`.
OF_LOGITS: list[Callable[..., Mapping[str, torch.Tensor]]] = []
_ROW = "row_of_batch"  # a column that says where a row of a pass belongs


def of_logits(function: Callable[..., Mapping[str, torch.Tensor]]) -> Callable[..., Mapping[str, torch.Tensor]]:
    """Have a loss find what a function makes of logits: `of_pass.get()["NAME"]`, and `old_NAME` before the update.

    Args:
        function: takes the logits divided by the temperature, (bs, response_length, vocabulary), the columns of the
            pass and the actor's config; returns columns, (bs, response_length, ...), by name.
    """
    OF_LOGITS.append(function)
    return function


class WholeBatch(DataProto):
    """A batch of which upstream's actor selects every tensor, where it names some."""

    def select(self, batch_keys: Any = None, *others: Any, **more: Any) -> DataProto:
        """Select all tensors, and of the rest what is asked for."""
        return super().select(list(self.batch.keys()), *others, **more)


def with_numbers(data: DataProto) -> DataProto:
    """Return a batch with all tensors selected, and arrays of numbers, such as a reward reports, as (bs,) float32.

    Its `uid` has a number for each group, (bs,) int64, the same on every process.
    """
    of_update.set(data.meta_info)
    arrays = {name: value for name, value in data.non_tensor_batch.items() if name not in data.batch.keys()}
    tensors = data.batch.copy()
    tensors[_ROW] = torch.arange(len(data), device=tensors.device)
    for name, value in arrays.items():
        try:
            if name == "uid":
                value = np.array([int(md5(str(group).encode()).hexdigest()[:15], 16) for group in value])
            tensors[name] = torch.as_tensor(value if name == "uid" else value.astype("float32"), device=tensors.device)
        except (TypeError, ValueError):  # no numbers
            continue
    return WholeBatch(tensors, data.non_tensor_batch, data.meta_info)


def hand_over(columns: Any, entropy: torch.Tensor | None, **others: torch.Tensor) -> None:
    """Set what the next loss can ask for.

    Args:
        columns: of its rows, by name.
        entropy: (bs, response_length); None: nothing has asked for it.
        others: what was made of its logits.
    """
    found = Columns({**of_update.get(), **columns, **others})
    of_pass.set(found if entropy is None else Columns(found, entropy=entropy))


def columns_of_logits(logits: torch.Tensor, rows: Mapping[str, Any], config: Any) -> dict[str, torch.Tensor]:
    """Return what `OF_LOGITS` make of logits, (bs, length, vocabulary), or (1, tokens, vocabulary) without padding."""
    mask, length = rows["attention_mask"].bool(), rows["responses"].shape[-1]
    if logits.shape[:2] != mask.shape:
        logits = logits.new_zeros(*mask.shape, logits.shape[-1]).masked_scatter(mask.unsqueeze(-1), logits)
    found = dict[str, torch.Tensor]()
    for function in OF_LOGITS:
        found.update(function(logits[:, -length - 1 : -1], rows, config))
    return found


def in_order(passes: list[tuple[Mapping[str, Any], dict[str, torch.Tensor]]]) -> dict[str, torch.Tensor]:
    """Return what passes made of logits as the old policy's, in the order of the batch, of their rows and columns."""
    places = torch.cat([rows[_ROW] for rows, _ in passes]).argsort()
    return {f"old_{name}": torch.cat([made[name] for _, made in passes])[places] for name in passes[0][1]}


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
    if OF_LOGITS:
        text = "a loss reads what of_logits makes of logits, which projects of verl up to 0.7.1 have"
        raise ConfigError(text, "vextract upgrade --to 0.7.1")
    if model_output is not None:  # None: a distillation asks for the numbers of logits first
        entropy = model_output.get("entropy")
        hand_over(data, None if entropy is None else padded(entropy, data))
    return loss(model_output=model_output, data=data, dp_group=dp_group, **others)
