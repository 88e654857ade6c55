# vextract:template base/__package__/workers/actor.py - edit freely
"""The vendored engine around a model that this project has loaded, placed and will save itself; with verl's losses."""

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from ..shims.device import to_dtype
from ..shims.tensors import ENTROPY_IS_REPORTED, having
from ..vendored.algorithms.losses import ppo_loss
from ..vendored.protocol import DataProto
from ..vendored.utils import tensordict_utils as tu
from ..vendored.utils.metric.utils import Metric
from ..vendored.utils.py_functional import append_to_dict
from ..vendored.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from ..vendored.workers.utils.padding import left_right_2_no_padding, no_padding_2_padding
from .passes import Passes
from .role_configs import engine_config, optimizer_config

# Columns of a batch that the engine and the losses may read.
COLUMNS = (
    "input_ids attention_mask position_ids prompts responses response_mask old_log_probs advantages ref_log_prob "
    "rollout_log_probs rollout_is_weights values returns outcomes rivals row_weights rows teacher_logprobs "
    "teacher_ids"
).split()


class LocalEngine(FSDPEngineWithLMHead):
    """A vendored engine: batches come padded, the model from outside, and processes share its updates.

    Attributes:
        passes: how its passes are shared between the processes.
        takes_own_log_probs: see `Actor`.

    Args:
        config: the section of the model (actor, ref or critic), with `use_remove_padding`.
        module: the model, on its device.
        optimizer: of what is trained; None: it is not trained.
    """

    def __init__(self, config: Any, module: Any, optimizer: torch.optim.Optimizer | None = None) -> None:
        model: Any = SimpleNamespace(use_remove_padding=config.use_remove_padding, lora_rank=0)
        self.passes = Passes(config)
        super().__init__(model, engine_config(config), optimizer_config(config), None)
        self.config, self.module, self.optimizer = config, module, optimizer
        self._autocast_dtype = to_dtype(config.fsdp_config.dtype)
        self.takes_own_log_probs = False

    def prepare_model_inputs(self, micro_batch: Any) -> Any:
        """Return what the model takes, and say that a pass of an update begins."""
        if torch.is_grad_enabled():
            self.passes.begin_pass()
        return super().prepare_model_inputs(micro_batch)

    def prepare_model_outputs(self, output: Any, output_args: Any, micro_batch: Any, **settings: Any) -> Any:
        """Return what the model gave, by token; maybe its log-probabilities as the old ones, too."""
        outputs = super().prepare_model_outputs(output, output_args, micro_batch, **settings)
        if self.takes_own_log_probs and torch.is_grad_enabled() and "log_probs" in outputs:
            micro_batch["old_log_probs"] = no_padding_2_padding(outputs["log_probs"].detach(), micro_batch)
            if ENTROPY_IS_REPORTED.get():  # it is only logged: no gradient may flow through it
                outputs["entropy"] = outputs["entropy"].detach()
        return outputs

    def infer(self, data: DataProto, **settings: Any) -> dict[str, torch.Tensor]:
        """Return what the model says of the responses' tokens: each (bs, response_length) float32.

        Args:
            data: `meta_info` has the size of the passes and the temperature.
            settings: what is to be computed, as the engine takes it.
        """
        meta = data.meta_info
        batch = self._unpadded(data, meta["use_dynamic_bsz"], meta["micro_batch_size"], meta["max_token_len"])
        tu.assign_non_tensor(batch, **settings)
        with self.eval_mode(disable_auto_offload=True):
            outputs = self.infer_batch(batch)["model_output"]
        return {name: no_padding_2_padding(value, batch).float() for name, value in outputs.items()}

    def mini_batches(self, data: DataProto, **settings: Any) -> Iterator[Any]:
        """Cut a batch into what the engine takes for each optimizer step: `ppo_epochs` times its mini-batches.

        Args:
            data: the rows whose passes this process takes part in.
            settings: what is to be computed, as the engine takes it.
        """
        section = self.config
        rows, tokens = section.ppo_micro_batch_size_per_gpu, section.ppo_max_token_len_per_gpu
        for _ in range(section.ppo_epochs):
            for part in data.split(section.ppo_mini_batch_size):
                batch = self._unpadded(part, section.use_dynamic_bsz, rows, tokens)
                rows_of_all = sum(self.passes.gather(len(part)))
                tu.assign_non_tensor(batch, global_batch_size=rows_of_all, **settings)
                yield batch

    def _unpadded(self, data: DataProto, by_tokens: bool, rows: int, tokens: int) -> Any:
        """Return a batch as the engine takes it: without padding, with the size of its passes."""
        columns = [name for name in COLUMNS if name in data.batch.keys()]
        chosen = data.select(columns, [], [])
        if "response_mask" not in columns:
            chosen.batch["response_mask"] = data.batch["attention_mask"][:, -data.batch["responses"].shape[1] :]
        chosen.meta_info["temperature"] = data.meta_info.get("temperature", 1.0)
        batch = left_right_2_no_padding(chosen.to_tensordict())
        rows_of_pass = next(size for size in range(min(rows, len(data)), 0, -1) if len(data) % size == 0)
        tu.assign_non_tensor(
            batch,
            use_dynamic_bsz=by_tokens,
            micro_batch_size_per_gpu=rows_of_pass,
            max_token_len_per_gpu=tokens,
            use_remove_padding=self.config.use_remove_padding,
        )
        return batch

    def note(self, metrics: dict[str, Any], output: dict[str, Any]) -> None:
        """Add the metrics of one optimizer step, over all passes of all processes, to those of the steps before it."""
        found = {**output["metrics"], "loss": sum(output["loss"])}
        parts = self.passes.gather(found)
        for name in found:
            values = [part[name] for part in parts]
            if isinstance(values[0], Metric):  # verl's metrics know how to be reduced; others are averaged
                found[name] = float(Metric.aggregate_dp(values))
            else:
                numbers = [one for value in values for one in (value if isinstance(value, list) else [value])]
                found[name] = float(sum(numbers) / len(numbers))
        append_to_dict(metrics, found)


class Actor(LocalEngine):
    """Upstream's `FSDPEngineWithLMHead` and `ppo_loss`, around a model that is there already.

    With `takes_own_log_probs` the next update uses its own (detached) log-probabilities as the old ones, and reports
    the entropy. This is exact if a batch is used for one update only; verl did so up to 0.7.

    Args:
        config, module, optimizer: see `LocalEngine`.
    """

    def outputs_for(self, data: DataProto, calculate_entropy: bool) -> dict[str, torch.Tensor]:
        """Return log_probs of the responses' tokens and, if asked for, entropys: (bs, response_length) float32."""
        squares = self.config.get("calculate_sum_pi_squared", False)
        outputs = self.infer(data, calculate_entropy=calculate_entropy, calculate_sum_pi_squared=squares)
        return {"entropys" if name == "entropy" else name: value for name, value in outputs.items()}

    def update_policy(self, data: DataProto) -> dict[str, Any]:
        """Train on a batch; returns upstream's metrics, named actor/*, each a list."""
        entropy = self.config.calculate_entropy or self.config.entropy_coeff != 0
        loss, found = partial(ppo_loss, self.config), dict[str, Any]()
        settings = {"calculate_entropy": entropy or self.takes_own_log_probs}
        reported = self.config.entropy_coeff == 0
        with self.train_mode(disable_auto_offload=True), having(ENTROPY_IS_REPORTED, reported):
            for batch in self.mini_batches(data, **settings):
                self.note(found, self.train_batch(batch, loss_function=loss))
        metrics = {name if name.startswith("actor/") else f"actor/{name}": value for name, value in found.items()}
        if self.takes_own_log_probs and "actor/entropy_loss" in metrics:
            metrics["actor/entropy"] = metrics["actor/entropy_loss"] if entropy else metrics.pop("actor/entropy_loss")
        return metrics
