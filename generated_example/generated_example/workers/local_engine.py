# vextract:template base/__package__/workers/local_engine.py - edit freely
"""The vendored training engine around a model that this project has loaded, placed and will save itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from ..shims.precision import to_dtype
from ..vendored.protocol import DataProto
from ..vendored.utils import tensordict_utils as tu
from ..vendored.utils.metric.utils import Metric
from ..vendored.utils.py_functional import append_to_dict
from ..vendored.workers.engine import utils as engine_utils
from ..vendored.workers.utils.padding import left_right_2_no_padding, no_padding_2_padding
from .role_configs import engine_config, optimizer_config
from .shared_forward import SharedForward

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


class LocalEngine:
    """A vendored engine: batches come padded, and the model comes from outside.

    Attributes:
        engine: the vendored one.
        passes: how its passes are shared between the processes.

    Args:
        kind: the engine's class.
        config: the section of the model (actor, ref or critic), with `use_remove_padding`.
        module: the model, on its device.
        optimizer: of what is trained; None: it is not trained.
        wrap: is given the engine before the processes share its passes.
    """

    def __init__(
        self,
        kind: Callable[..., Any],
        config: Any,
        module: Any,
        optimizer: torch.optim.Optimizer | None,
        wrap: Callable[[Any], object] = lambda engine: None,
    ) -> None:
        self.config = config
        model = SimpleNamespace(use_remove_padding=config.use_remove_padding, lora_rank=0)
        self.engine = kind(model, engine_config(config), optimizer_config(config), None)
        self.engine.module, self.engine.optimizer = module, optimizer
        self.engine._autocast_dtype = to_dtype(config.fsdp_config.dtype)
        wrap(self.engine)
        self.passes = SharedForward(self.engine, config)

    def infer(self, data: DataProto, **settings: Any) -> dict[str, torch.Tensor]:
        """Return what the model says of the responses' tokens: each (bs, response_length) float32.

        Args:
            data: `meta_info` has the size of the passes and the temperature.
            settings: what is to be computed, as the engine takes it.
        """
        meta = data.meta_info
        batch = self._unpadded(data, meta["use_dynamic_bsz"], meta["micro_batch_size"], meta["max_token_len"])
        tu.assign_non_tensor(batch, **settings)
        with self.engine.eval_mode(disable_auto_offload=True):
            outputs = self.engine.infer_batch(batch)["model_output"]
        return {name: no_padding_2_padding(value, batch).float() for name, value in outputs.items()}

    @contextmanager
    def training(self) -> Iterator[None]:
        """Have updates take place within it."""
        forming = self.passes.forming(engine_utils, _lengths_of, tu.index_select_tensor_dict)
        with self.engine.train_mode(disable_auto_offload=True), forming:
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
        dist.all_reduce(count, group=self.passes.group())
        return int(count)

    def note(self, metrics: dict[str, Any], output: dict[str, Any]) -> None:
        """Add the metrics of one optimizer step, over all passes of all processes, to those of the steps before it."""
        found = {**output["metrics"], "loss": sum(output["loss"])}
        parts = self.passes.ranks.gather_objects(found)[:: self.passes.sharers]
        append_to_dict(metrics, {name: _one_number([part[name] for part in parts]) for name in found})


def _lengths_of(batch: Any) -> torch.Tensor:
    lengths: torch.Tensor = batch["input_ids"].offsets().diff().cpu()
    return lengths


def named(prefix: str, metrics: dict[str, Any]) -> dict[str, Any]:
    """Have the names of metrics all begin with `prefix`."""
    return {name if name.startswith(prefix) else prefix + name: value for name, value in metrics.items()}


def _one_number(values: list[Any]) -> float:
    """Reduce what each process has to a number: verl's metrics know how; others are averaged."""
    if isinstance(values[0], Metric):
        return float(Metric.aggregate_dp(values))
    numbers = [number for value in values for number in (value if isinstance(value, list) else [value])]
    return float(sum(numbers) / len(numbers))
