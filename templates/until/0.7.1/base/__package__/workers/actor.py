# vextract:template - edit freely
"""The vendored actor, without passes over padding, and with the entropy of the passes that it learns from."""

from collections.abc import Mapping
from typing import Any

import torch

from ..shims.device import autocast_dtype, get_device_name
from ..shims.tensors import ENTROPY_IS_REPORTED, having
from ..switches import LOGITS_IN_PIECES, LOSS_COLUMNS
from ..vendored.algorithms.core_algos import agg_loss
from ..vendored.workers.dp_actor import DataParallelPPOActor
from .fused_logits import FusedLogits
from .loss_columns import OF_LOGITS, columns_of_logits, hand_over, in_order, with_numbers
from .shared_forward import SharedForward


class Actor:
    """Upstream's `DataParallelPPOActor`; `takes_own_log_probs` makes its next update note the entropy.

    Attributes:
        passes: how its passes are shared between the processes.

    Args:
        config: the section of the config (actor or ref), with `use_remove_padding`.
        module: the model, on its device.
        optimizer: of what is trained; None: it is not trained.
    """

    def __init__(self, config: Any, module: Any, optimizer: torch.optim.Optimizer | None = None) -> None:
        self.config, self.module = config, module
        self.takes_own_log_probs = False
        self._actor = DataParallelPPOActor(config, module, optimizer)
        self._forward = self._actor._forward_micro_batch
        if LOSS_COLUMNS:
            self._makes_columns, self._names = bool(OF_LOGITS) and optimizer is not None, list[str]()
            self.passes = SharedForward(self._with_columns, config)
        else:
            self.passes = SharedForward(self._whole_or_in_pieces if LOGITS_IN_PIECES else self._forward, config)
        self._actor._forward_micro_batch = self._forward_micro_batch

    if LOSS_COLUMNS:

        def _with_columns(self, micro_batch: dict[str, Any], *args: Any, **others: Any) -> Any:
            """Have upstream compute this process's rows; columns of their logits come behind its outputs."""
            forward, logits = self._whole_or_in_pieces if LOGITS_IN_PIECES else self._forward, list[torch.Tensor]()
            if not self._makes_columns:
                return forward(micro_batch, *args, **others)
            # Upstream divides them by the temperature in place.
            with self.module.register_forward_hook(lambda model, taken, output: logits.append(output.logits)):
                outputs = forward(micro_batch, *args, **others)
            with torch.autocast(get_device_name(), dtype=autocast_dtype(self.config)):
                columns = columns_of_logits(logits[0], micro_batch, self.config)
            self._names = list(columns)
            return {**outputs, **columns} if isinstance(outputs, dict) else (*outputs, *columns.values())

        def _take_columns(self, outputs: Any) -> tuple[Any, dict[str, torch.Tensor]]:
            """Return upstream's outputs, and the columns that came behind them."""
            if isinstance(outputs, dict):
                return outputs, {name: outputs.pop(name) for name in self._names}
            place = len(outputs) - len(self._names)
            return outputs[:place], dict(zip(self._names, outputs[place:], strict=True))

    if LOGITS_IN_PIECES:

        def limit_logits(self, max_logits_mb: float | str | None) -> None:
            """Have logits that take more MiB computed in pieces; see `LogitsInPieces`."""
            self.pieces = FusedLogits(self.module, max_logits_mb)
            self._actor.compute_log_prob = self.pieces.in_use()(self._actor.compute_log_prob)
            self._actor.update_policy = self.pieces.in_use()(self._actor.update_policy)

        def _whole_or_in_pieces(
            self, micro_batch: dict[str, Any], temperature: float, calculate_entropy: bool, **others: Any
        ) -> Any:
            """Have upstream compute this process's rows; as with fused kernels where logits are large."""
            needs_logits = self.config.get("calculate_sum_pi_squared", False)
            if LOSS_COLUMNS:
                needs_logits = needs_logits or self._makes_columns
            in_pieces = not needs_logits and self.pieces.wanted(int(micro_batch["attention_mask"].sum()))
            self._actor.use_fused_kernels = in_pieces
            self.pieces.calculate_entropy = calculate_entropy
            return self._forward(micro_batch, temperature, calculate_entropy, **others)

    def outputs_for(self, data: Any, calculate_entropy: bool) -> dict[str, torch.Tensor]:
        """Return log_probs and, if asked for, entropys and sum_pi_squared, all (bs, response_length)."""
        if LOSS_COLUMNS:
            self._of_passes, data = [], with_numbers(data)
        outputs = self._actor.compute_log_prob(data, calculate_entropy=calculate_entropy)
        if not isinstance(outputs, dict):  # up to 0.7.0
            named = zip(("log_probs", "entropys"), outputs, strict=False)  # an owner's may return more behind them
            outputs = {name: value for name, value in named if value is not None}
        if LOSS_COLUMNS:
            outputs |= in_order(self._of_passes)
        return outputs

    def update_policy(self, data: Any) -> dict[str, Any]:
        """Train on a batch, as upstream does.

        Returns:
            Upstream's metrics, and `actor/entropy` if `takes_own_log_probs` is set: over all tokens of the responses,
            before the update that they belong to.
        """
        self._entropies: list[torch.Tensor] = []
        self._masks: list[torch.Tensor] = []
        if LOSS_COLUMNS:
            data = with_numbers(data)
        metrics: dict[str, Any] = self._actor.update_policy(data)
        if self._entropies:
            entropies, masks = (self.rows_of_all(torch.cat(rows)) for rows in (self._entropies, self._masks))
            metrics["actor/entropy"] = agg_loss(entropies, masks, self.config.loss_agg_mode).item()
        return metrics

    def rows_of_all(self, rows: torch.Tensor) -> torch.Tensor:
        """Put something for each row of this process's passes together to the same for all rows of the batch."""
        passes = self.passes
        if passes.ranks.world_size == 1:
            return rows
        return torch.cat(passes.gather(rows.cpu()))

    def _forward_micro_batch(
        self, micro_batch: dict[str, Any], temperature: float, calculate_entropy: bool = False, **others: Any
    ) -> Any:
        """Compute a micro-batch's log-probabilities, and their entropy if asked for: both (bs, response_length).

        Returns:
            What upstream's method returns: the entropy and the log-probabilities; since 0.7.1 a dictionary of outputs.
        """
        noting = self.takes_own_log_probs and torch.is_grad_enabled()
        inputs = without_common_padding(micro_batch)
        if LOSS_COLUMNS and torch.is_grad_enabled():
            calculate_entropy = calculate_entropy or self.config.get("calculate_entropy", True)
        with having(ENTROPY_IS_REPORTED, noting and not calculate_entropy):
            outputs = self.passes.forward(inputs, temperature, calculate_entropy or noting, **others)
        if LOSS_COLUMNS:
            outputs, columns = self._take_columns(outputs)
        entropy: Any = outputs.get("entropys") if isinstance(outputs, dict) else outputs[0]
        if noting:
            self._entropies.append(entropy.detach())
            self._masks.append(micro_batch["response_mask"])
        if LOSS_COLUMNS:
            if torch.is_grad_enabled():
                hand_over(micro_batch, entropy, **columns)
            else:
                self._of_passes.append((micro_batch, columns))
        return outputs


def without_common_padding(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a micro-batch without the columns on the left that are padding in every row; a prompt's last one stays.

    Args:
        batch: input_ids, attention_mask, (bs, prompt_length + response_length), position_ids of that shape or with a
            further dimension in the middle, responses (bs, response_length), and whatever else, which stays as it is.
    """
    prompt_length = batch["input_ids"].shape[-1] - batch["responses"].shape[-1]
    used = batch["attention_mask"][:, : prompt_length - 1].any(dim=0)
    first = int(used.int().argmax()) if used.any() else prompt_length - 1
    cut = ("input_ids", "attention_mask", "position_ids")
    return {name: value[..., first:] if name in cut else value for name, value in batch.items()}
