# vextract:template - edit freely
"""The vendored engine around a model that this project has loaded, placed and will save itself; with verl's losses."""

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from ..shims.device import to_dtype
from ..shims.tensors import ENTROPY_IS_REPORTED, having
from ..switches import DISTILLATION, DYNAMIC_BSZ, LOGITS_IN_PIECES, LOSS_COLUMNS, MULTIMODAL, PRIME, SFT, SHARED_PASSES
from ..vendored.algorithms.losses import ppo_loss
from ..vendored.protocol import DataProto
from ..vendored.utils import tensordict_utils as tu
from ..vendored.utils.metric.utils import Metric
from ..vendored.utils.py_functional import append_to_dict
from ..vendored.workers.engine import utils as engine_utils
from ..vendored.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from ..vendored.workers.utils.padding import left_right_2_no_padding, no_padding_2_padding
from .logits import Asked, LogitsInPieces, in_use
from .loss_columns import with_columns, with_numbers
from .passes import Passes
from .role_configs import engine_config, optimizer_config
from .shared_passes import SharedPasses
from .token_passes import forming, within

if not LOSS_COLUMNS:
    # Columns of a batch that the engine and the losses may read.
    COLUMNS = (
        "input_ids attention_mask position_ids prompts responses response_mask old_log_probs advantages ref_log_prob "
        "rollout_log_probs rollout_is_weights values returns outcomes rivals row_weights rows teacher_logprobs "
        "teacher_ids"
    ).split()
if LOGITS_IN_PIECES:
    NEEDS_LOGITS = ("calculate_sum_pi_squared", "distillation_use_topk")


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
        self.passes = SharedPasses(config) if SHARED_PASSES else Passes(config)
        super().__init__(model, engine_config(config), optimizer_config(config), None)
        self.config, self.module, self.optimizer = config, module, optimizer
        self._autocast_dtype = to_dtype(config.fsdp_config.dtype)
        self.takes_own_log_probs = False

    if SHARED_PASSES:

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
        """Return what the model takes, and say that a pass of an update begins."""
        if torch.is_grad_enabled():
            self.passes.begin_pass()
        if SHARED_PASSES and self._sharing:
            self._partition = self.passes.partition(micro_batch["input_ids"].offsets().diff().cpu())
            self._part = tu.index_select_tensor_dict(micro_batch, self.passes.own(self._partition))
            micro_batch = self._part
        if LOGITS_IN_PIECES:
            inputs, output_args = super().prepare_model_inputs(micro_batch)
            self.ask_for_pieces(micro_batch, inputs["input_ids"], output_args)
            return inputs, output_args
        else:
            return super().prepare_model_inputs(micro_batch)

    def prepare_model_outputs(self, output: Any, output_args: Any, micro_batch: Any, **settings: Any) -> Any:
        """Return what the model gave, by token; maybe its log-probabilities as the old ones, too."""
        if LOGITS_IN_PIECES and self.pieces is not None and self.pieces.asked is not None:
            offsets = (self._part if SHARED_PASSES and self._sharing else micro_batch)["input_ids"].offsets()
            log_probs, entropy = used_tokens(output.logits, offsets).unbind(-1)
            given = {"log_probs": log_probs, **({"entropy": entropy} if self.pieces.asked.entropy else {})}
            outputs = {k: torch.nested.nested_tensor_from_jagged(value, offsets) for k, value in given.items()}
        else:
            if SHARED_PASSES:
                part = self._part if self._sharing else micro_batch
                outputs = super().prepare_model_outputs(output, output_args, part, **settings)
            else:
                outputs = super().prepare_model_outputs(output, output_args, micro_batch, **settings)
        if SHARED_PASSES and self._sharing:
            outputs = {name: self._whole_nested(value, micro_batch) for name, value in outputs.items()}
        if self.takes_own_log_probs and torch.is_grad_enabled() and "log_probs" in outputs:
            micro_batch["old_log_probs"] = no_padding_2_padding(outputs["log_probs"].detach(), micro_batch)
            if ENTROPY_IS_REPORTED.get():  # it is only logged: no gradient may flow through it
                outputs["entropy"] = outputs["entropy"].detach()
        return outputs

    if LOGITS_IN_PIECES:
        # Computes logits in pieces where they would be too large; None: it has none.
        pieces: LogitsInPieces | None = None

        def limit_logits(self, max_logits_mb: float | str | None) -> None:
            """Have logits that take more MiB computed in pieces; see `LogitsInPieces`."""
            self.pieces = LogitsInPieces(self.module, max_logits_mb)

        def ask_for_pieces(self, micro_batch: Any, tokens: torch.Tensor, output_args: Any) -> None:
            """Ask the last layer for less in the next pass, where logits would be too large."""
            if self.pieces is None:
                return
            self.pieces.asked = None
            needs_logits = any(tu.get_non_tensor_data(micro_batch, name, False) for name in NEEDS_LOGITS)
            if self.pieces.wanted(tokens.numel()) and not needs_logits:
                labels = torch.roll(tokens, shifts=-1, dims=-1)
                if tokens.shape[0] == 1 and "input_ids_rmpad_rolled" in output_args:
                    labels = output_args["input_ids_rmpad_rolled"].unsqueeze(0)
                entropy = tu.get_non_tensor_data(micro_batch, "calculate_entropy", False)
                self.pieces.asked = Asked(labels, float(micro_batch["temperature"]), entropy)

        def train_mode(self, **settings: Any) -> Any:
            """Return what goes around an update."""
            return in_use(self.pieces, super().train_mode(**settings))

        def eval_mode(self, **settings: Any) -> Any:
            """Return what goes around passes without an update."""
            return in_use(self.pieces, super().eval_mode(**settings))

    if SHARED_PASSES:

        def _whole_nested(self, part: torch.Tensor, micro_batch: Any) -> torch.Tensor:
            """Gather the values at all rows from those at this process's; both nested, a value for each token."""
            length = tu.get_non_tensor_data(micro_batch, "max_seq_len", 0)
            padded = pad_sequence([*part.unbind(), part.values().new_zeros(length)], batch_first=True)[:-1]
            whole = self.passes.gather_rows(padded, self._partition)
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

    if DYNAMIC_BSZ:
        mini_batches = within(
            mini_batches,
            lambda self: forming(self.passes, engine_utils, _lengths_of, tu.index_select_tensor_dict),
        )

    def _unpadded(self, data: DataProto, by_tokens: bool, rows: int, tokens: int) -> Any:
        """Return a batch as the engine takes it: without padding, with the size of its passes."""
        if LOSS_COLUMNS:
            columns = list(data.batch.keys())
        else:
            columns = [name for name in COLUMNS if name in data.batch.keys()]
        if MULTIMODAL:
            images = [name for name in ("multi_modal_inputs",) if name in data.non_tensor_batch]
            chosen = data.select(columns, images, [])
        else:
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

    if DISTILLATION or PRIME or SFT:

        def __init__(self, config: Any, module: Any, optimizer: torch.optim.Optimizer | None = None) -> None:
            super().__init__(config, module, optimizer)
            # What its updates minimise in the place of upstream's loss, and what the engine is told besides.
            self.loss: Callable[..., Any] = ppo_loss
            self.loss_settings: dict[str, Any] = {}

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
        if DISTILLATION or PRIME or SFT:
            loss = partial(self.loss, self.config)
            settings |= self.loss_settings
        reported = self.config.entropy_coeff == 0
        if LOSS_COLUMNS:
            data, loss = with_numbers(data), partial(with_columns, loss, no_padding_2_padding)
            reported = reported and not self.config.calculate_entropy
        with self.train_mode(disable_auto_offload=True), having(ENTROPY_IS_REPORTED, reported):
            for batch in self.mini_batches(data, **settings):
                self.note(found, self.train_batch(batch, loss_function=loss))
        metrics = {name if name.startswith("actor/") else f"actor/{name}": value for name, value in found.items()}
        if self.takes_own_log_probs and "actor/entropy_loss" in metrics:
            metrics["actor/entropy"] = metrics["actor/entropy_loss"] if entropy else metrics.pop("actor/entropy_loss")
        return metrics


if DYNAMIC_BSZ:

    def _lengths_of(batch: Any) -> Any:
        return batch["input_ids"].offsets().diff().cpu()


if LOGITS_IN_PIECES or SHARED_PASSES:

    def used_tokens(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """Return the values of tokens, (tokens, ...), of rows that may be padded on the right, (bs, length, ...)."""
        if values.shape[0] * values.shape[1] == offsets[-1]:
            return values.flatten(0, 1)
        return values[torch.arange(values.shape[1], device=values.device) < offsets.diff().unsqueeze(1)]
