# vextract:template - edit freely
"""The vendored training engine around a model that this project has loaded, placed and will save itself.

Several processes compute the passes of an update together: see passes.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.utils.rnn import pad_sequence

from ..shims.device import to_dtype
from ..switches import DYNAMIC_BSZ
from ..tracking import begin
from ..vendored.protocol import DataProto
from ..vendored.utils import tensordict_utils as tu
from ..vendored.utils.metric.utils import Metric
from ..vendored.utils.py_functional import append_to_dict
from ..vendored.workers.engine import utils as engine_utils
from ..vendored.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from ..vendored.workers.utils.padding import left_right_2_no_padding, no_padding_2_padding
from .passes import SharedPasses
from .role_configs import engine_config, optimizer_config
from .token_passes import forming

# What the engine and its losses read of a batch, where it is there.
COLUMNS = (
    "input_ids",
    "attention_mask",
    "position_ids",
    "prompts",
    "responses",
    "response_mask",
    "old_log_probs",
    "advantages",
    "ref_log_prob",
    "rollout_log_probs",
    "rollout_is_weights",
    "values",
    "returns",
    "outcomes",
    "rivals",
    "row_weights",
    "rows",
    "teacher_logprobs",
    "teacher_ids",
)


class LocalEngine(FSDPEngineWithLMHead):
    """A vendored engine: batches come padded, the model from outside, and processes share its passes.

    Attributes:
        passes: how its passes are shared between the processes.

    Args:
        config: the section of the model (actor, ref or critic), with `use_remove_padding`.
        module: the model, on its device.
        optimizer: of what is trained; None: it is not trained.
    """

    def __init__(self, config: Any, module: Any, optimizer: torch.optim.Optimizer | None = None) -> None:
        model: Any = SimpleNamespace(use_remove_padding=config.use_remove_padding, lora_rank=0)
        self.passes = SharedPasses(config, uneven=False)
        super().__init__(model, engine_config(config), optimizer_config(config), None)
        self.config, self.module, self.optimizer = config, module, optimizer
        self._autocast_dtype = to_dtype(config.fsdp_config.dtype)

    @property
    def _sharing(self) -> bool:
        """Tell whether this is an update in which several processes share each pass."""
        return self.passes.sharers > 1 and torch.is_grad_enabled()

    def get_data_parallel_size(self) -> int:
        """Return how many passes are computed at once."""
        size: int = super().get_data_parallel_size()
        return size // self.passes.sharers if self._sharing else size

    def get_data_parallel_group(self) -> Any:
        """Return the processes of which each computes other passes."""
        return self.passes.group if self._sharing else super().get_data_parallel_group()

    def prepare_model_inputs(self, micro_batch: Any) -> Any:
        """Return what the model takes: in an update, of the rows that this process forwards."""
        begin(len(micro_batch))
        if torch.is_grad_enabled():
            self.passes.begin_pass()
        if self._sharing:
            self._partition = self.passes.partition(_lengths_of(micro_batch))
            self._part = tu.index_select_tensor_dict(micro_batch, self.passes.own(self._partition))
            micro_batch = self._part
        return self.own_inputs(micro_batch)

    def prepare_model_outputs(self, output: Any, output_args: Any, micro_batch: Any, **settings: Any) -> Any:
        """Return what the model gave, by token: in an update of all rows of the pass."""
        if not self._sharing:
            return self.own_outputs(output, output_args, micro_batch, **settings)
        outputs = self.own_outputs(output, output_args, self._part, **settings)
        return {name: self._whole_nested(value, micro_batch) for name, value in outputs.items()}

    def own_inputs(self, micro_batch: Any) -> Any:
        """Return what the model takes of the rows that this process forwards."""
        return super().prepare_model_inputs(micro_batch)

    def own_outputs(self, output: Any, output_args: Any, micro_batch: Any, **settings: Any) -> Any:
        """Return what the model gave, by token, of the rows that this process has forwarded."""
        return super().prepare_model_outputs(output, output_args, micro_batch, **settings)

    def _whole_nested(self, part: torch.Tensor, micro_batch: Any) -> torch.Tensor:
        """Gather the values at all rows from those at this process's; both nested, a value for each token."""
        length = tu.get_non_tensor_data(micro_batch, "max_seq_len", 0)
        padded = pad_sequence([*part.unbind(), part.values().new_zeros(length)], batch_first=True)[:-1]
        whole = self.passes.whole(padded, self._partition)
        offsets = micro_batch["input_ids"].offsets()
        return torch.nested.nested_tensor_from_jagged(used_tokens(whole, offsets), offsets)

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

    @contextmanager
    def training(self) -> Iterator[None]:
        """Have updates take place within it."""
        with self.train_mode(disable_auto_offload=True):
            if DYNAMIC_BSZ:
                with forming(self.passes, engine_utils, _lengths_of, tu.index_select_tensor_dict):
                    yield
            else:
                yield

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
                tu.assign_non_tensor(batch, global_batch_size=self._rows_of_all(len(part)), **settings)
                yield batch

    def _unpadded(self, data: DataProto, by_tokens: bool, rows: int, tokens: int) -> Any:
        """Return a batch as the engine takes it: without padding, with the size of its passes."""
        columns = [name for name in COLUMNS if name in data.batch.keys()]
        images = [name for name in ("multi_modal_inputs",) if name in data.non_tensor_batch]
        chosen = data.select(columns, images, [])
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

    def _rows_of_all(self, rows: int) -> int:
        """Return the rows of a mini-batch that all processes together compute."""
        if self.passes.ranks.world_size == 1:
            return rows
        count = torch.tensor(rows)
        dist.all_reduce(count, group=self.passes.group)
        return int(count)

    def note(self, metrics: dict[str, Any], output: dict[str, Any]) -> None:
        """Add the metrics of one optimizer step, over all passes of all processes, to those of the steps before it."""
        found = {**output["metrics"], "loss": sum(output["loss"])}
        parts = self.passes.ranks.gather_objects(found)[:: self.passes.sharers]
        append_to_dict(metrics, {name: _one_number([part[name] for part in parts]) for name in found})


def _lengths_of(batch: Any) -> torch.Tensor:
    lengths: torch.Tensor = batch["input_ids"].offsets().diff().cpu()
    return lengths


def used_tokens(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return the values of tokens, (tokens, ...), of rows that may be padded on the right, (bs, length, ...)."""
    if values.shape[0] * values.shape[1] == offsets[-1]:
        return values.flatten(0, 1)
    return values[torch.arange(values.shape[1], device=values.device) < offsets.diff().unsqueeze(1)]


def named(prefix: str, metrics: dict[str, Any]) -> dict[str, Any]:
    """Have the names of metrics all begin with `prefix`."""
    return {name if name.startswith(prefix) else prefix + name: value for name, value in metrics.items()}


def _one_number(values: list[Any]) -> float:
    """Reduce what each process has to a number: verl's metrics know how; others are averaged."""
    if isinstance(values[0], Metric):
        return float(Metric.aggregate_dp(values))
    numbers = [number for value in values for number in (value if isinstance(value, list) else [value])]
    return float(sum(numbers) / len(numbers))
