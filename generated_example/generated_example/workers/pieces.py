# vextract:template base/__package__/workers/pieces.py - edit freely
"""How the vendored engine has its logits computed in pieces."""

from typing import Any

import torch

from ..vendored.utils import tensordict_utils as tu
from .logits import LogitsInPieces, TokenOutputs

NEEDS_LOGITS = ("calculate_sum_pi_squared", "distillation_use_topk")


class PiecesOfEngine:
    """Stands between a vendored engine and its model.

    Args:
        engine: the vendored engine; what it gives to its model, and takes from it, goes through here from now on.
        pieces: stands before the model.
    """

    def __init__(self, engine: Any, pieces: LogitsInPieces) -> None:
        self._pieces = pieces
        self._inputs, self._outputs = engine.prepare_model_inputs, engine.prepare_model_outputs
        engine.prepare_model_inputs, engine.prepare_model_outputs = self.inputs, self.outputs

    def inputs(self, micro_batch: Any) -> Any:
        """Return what the model takes; a temperature is among it where logits are to be computed in pieces."""
        inputs, output_args = self._inputs(micro_batch)
        needs_logits = any(tu.get_non_tensor_data(micro_batch, name, False) for name in NEEDS_LOGITS)
        if self._pieces.wanted(inputs["input_ids"].numel()) and not needs_logits:
            self._pieces.calculate_entropy = tu.get_non_tensor_data(micro_batch, "calculate_entropy", False)
            inputs["temperature"] = float(micro_batch["temperature"])
            if inputs["input_ids"].shape[0] == 1 and "input_ids_rmpad_rolled" in output_args:
                inputs["shift_labels"] = output_args["input_ids_rmpad_rolled"].unsqueeze(0)
        return inputs, output_args

    def outputs(self, output: Any, output_args: Any, micro_batch: Any, **settings: Any) -> dict[str, torch.Tensor]:
        """Return what the model gave, by token, as the engine does: nested, (bs, j)."""
        if not isinstance(output, TokenOutputs):
            found: dict[str, torch.Tensor] = self._outputs(output, output_args, micro_batch, **settings)
            return found
        offsets = micro_batch["input_ids"].offsets()
        names = ("log_probs", "entropy") if self._pieces.calculate_entropy else ("log_probs",)
        return {
            name: torch.nested.nested_tensor_from_jagged(used_tokens(output[name], offsets), offsets) for name in names
        }


def used_tokens(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return the values of tokens, (tokens, ...), of rows that may be padded on the right, (bs, length, ...)."""
    if values.shape[0] * values.shape[1] == offsets[-1]:
        return values.flatten(0, 1)
    return values[torch.arange(values.shape[1], device=values.device) < offsets.diff().unsqueeze(1)]
