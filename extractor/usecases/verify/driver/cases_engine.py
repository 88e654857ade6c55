"""Cases of the training engine on a tiny model."""

import contextlib
import functools
import os
import random
from collections.abc import Callable, Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch

from . import inputs
from .cases import Call, Cases, family, outcome, printed
from .cases_algorithms import AGG_MODES
from .cases_losses import losses_config, mean_over_the_batch
from .cases_models import GRADIENTS, RESPONSE, SIZE, process_group, with_gradients
from .cases_padding import LOSSES, PADDING, TENSORS, metric_of, unpadded
from .sides import Side

ENGINE = "verl.workers.engine.fsdp.transformer_impl"


def made_engine(
    side: Side,
    name: str = "FSDPEngineWithLMHead",
    *,
    remove_padding: bool = False,
    dtype: str = "float32",
    dropout: float = 0.0,
    clip: float | None = 1.0,
    **changes: Any,
) -> Any:
    """Return an engine around a ready model, skipping upstream's own building."""
    process_group()
    kind = "Qwen2ForTokenClassification" if name == "FSDPEngineWithValueHead" else "Qwen2ForCausalLM"
    module = inputs.model(kind, attention_dropout=dropout)
    config = side.get("verl.workers.config.engine:FSDPEngineConfig")
    optimizer = side.get("verl.workers.config.optimizer:FSDPOptimizerConfig")
    made = side.get(f"{ENGINE}:{name}")(
        SimpleNamespace(use_remove_padding=remove_padding, lora_rank=0, get=lambda key, default=None: default),
        config(**{"strategy": "fsdp2", "use_torch_compile": False, **changes}),
        optimizer(lr=1e-2, clip_grad=clip),
        None,
    )
    made.module, made.lr_scheduler = module, None
    made.optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, weight_decay=0.01)
    made._autocast_dtype = getattr(torch, dtype)
    return made


# What is changed of an update, and of what a model is asked.
CHUNKED = {"entropy_from_logits_with_chunking": True, "entropy_from_logits_chunk_size": 3}
UPDATES: dict[str, dict[str, Any]] = {
    "no entropy": {"entropy_coeff": 0.0},
    "no KL": {"use_kl_loss": False},
    "rollout weights": {"weights": True},
    "not finite": {"broken": True},
    "checkpointed entropy": {"engine": {"entropy_checkpointing": True}},
    "chunked entropy": {"engine": {"entropy_from_logits_with_chunking": True}},
    "chunked entropy, packed": {"packed": True, "engine": CHUNKED},
    "checkpointed entropy, packed": {"packed": True, "engine": {"entropy_checkpointing": True}},
    "no entropy, packed": {"packed": True, "entropy_coeff": 0.0},
    "loss scale": {"loss_agg_mode": "seq-mean-token-sum-norm", "loss_scale_factor": 3},
    "kl": {"kl_loss_type": "kl", "kl_loss_coef": 0.5},
    "dropout": {"engine": {"dropout": 0.5}},
    "outputs kept": {"settings": {"return_model_output": True}},
    "float16": {"dtype": "float16", "engine": {"clip": 1e-3}},
    "loss scaled": {"scaled": True},
    "sharded": {"sharded": True},
    "sharded, synchronised": {"sharded": True, "engine": {"use_no_sync_for_gradient_accumulation": False}},
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "unit temperature": {"temperature": 1.0},
    "temperatures": {"temperature": torch.linspace(0.5, 1.5, SIZE)},
    "no temperature": {"temperature": torch.full((SIZE,), 0.0)},
    "by default": {"use_dynamic_bsz": None, "calculate_entropy": None},
    "packed by default": {"use_remove_padding": None},
    "squares": {"calculate_sum_pi_squared": True},
    "fused": {"use_fused_kernels": True},
    "fused squares": {"use_fused_kernels": True, "calculate_sum_pi_squared": True},
    "groups": {"force_group_size": 2, "micro_batch_size_per_gpu": 2},
    "uneven": {"micro_batch_size_per_gpu": 3},
    "another padding": {"pad_token_id": 2},
    "distilled only": {"distillation_only": True, "calculate_entropy": None},
    "not without padding": {"pad_mode": "left_right"},
}


@family("engine", ENGINE)
def language_model(call: Call) -> Cases:
    """Yield cases of log-probabilities and updates, by precision, packing and loss."""
    side = call.side
    for dtype, dynamic, packed in product(("float32", "bfloat16"), (False, True), (False, True)):
        label = f"{dtype}/dynamic {dynamic}/packed {packed}"
        yield f"infer_batch/{label}", call(_infer, side, "FSDPEngineWithLMHead", dtype, dynamic, packed)
        yield f"train_batch/{label}", call(_train, side, dtype, dynamic, packed)
    for name in sorted(side.module("verl.trainer.ppo.core_algos").POLICY_LOSS_REGISTRY):
        yield f"train_batch/{name}", call(_train, side, loss_mode=name)
    for mode in AGG_MODES[:-1]:
        yield f"train_batch/{mode}", call(_train, side, loss_agg_mode=mode)
    for label, changes in UPDATES.items():
        yield f"train_batch/{label}", call(_train, side, **changes)
    for packed, (label, settings) in product((False, True), QUESTIONS.items()):
        yield f"infer_batch/{label}/packed {packed}", call(_infer, side, settings=settings, packed=packed)
    lengthened = {"pad_to_length": True, "pad_to_length_bucket": 16}
    for label, engine in (("to a length", lengthened), ("chunked", CHUNKED), ("dropout", {"dropout": 0.5})):
        yield f"infer_batch/{label}", call(_infer, side, packed=True, engine=engine)
    for packed, fused in product((False, True), (False, True)):
        yield f"given to the model/packed {packed}{'/fused' if fused else ''}", call(_prepare, side, packed, fused)
    yield "sequence parallel", call(made_engine, side, ulysses_sequence_parallel_size=2)
    for dynamic in (False, True):
        yield f"asked of other processes{'/dynamic' if dynamic else ''}", call(_record_all_reduce, side, dynamic)


def _infer(
    side: Side,
    name: str = "FSDPEngineWithLMHead",
    dtype: str = "float32",
    dynamic: bool = False,
    packed: bool = False,
    *,
    settings: dict[str, Any] | None = None,
    engine: dict[str, Any] | None = None,
) -> Any:
    known = side.get("verl.workers.config.engine:FSDPEngineConfig").__dataclass_fields__
    further = {key: value for key, value in (engine or {}).items() if key in known or key == "dropout"}
    made = made_engine(side, name, remove_padding=packed, dtype=dtype, **further)
    asked = {"use_dynamic_bsz": dynamic, "use_remove_padding": packed, "calculate_entropy": True, **(settings or {})}
    batch = unpadded(side, **asked)
    with made.eval_mode(disable_auto_offload=True):
        outputs = made.infer_batch(batch)["model_output"]
    back = side.get(f"{PADDING}:no_padding_2_padding")
    return {key: back(value, batch) for key, value in outputs.items()}, made.module.training


def _prepare(side: Side, packed: bool, fused: bool) -> Any:
    """Return a batch's model inputs and the arguments to decode outputs."""
    made = made_engine(side, remove_padding=packed)
    batch = unpadded(side, use_remove_padding=packed, use_fused_kernels=fused)
    return made.prepare_model_inputs(micro_batch=batch)


def _record_all_reduce(side: Side, dynamic: bool) -> Any:
    """Return all-reduce calls, output and batch sizes of a training pass."""
    made, config = made_engine(side), losses_config(side)
    batch, read = unpadded(side, use_dynamic_bsz=dynamic), side.get(f"{TENSORS}:get_non_tensor_data")
    with _mock_all_reduce(lambda values: values.mul_(2)) as seen, made.train_mode(disable_auto_offload=True):
        output = made.train_batch(batch, loss_function=functools.partial(_run_loss, side, config))
    told = [read(batch, key, "nothing") for key in ("sp_size", "dp_size", "batch_num_tokens", "global_batch_size")]
    return seen, _unpack(output), told


@contextlib.contextmanager
def _mock_all_reduce(answer: Callable[[torch.Tensor], object]) -> Iterator[list[Any]]:
    """Mock all-reduce with `answer`; yield the growing list of calls."""
    seen: list[Any] = []

    def reduce(values: torch.Tensor, op: Any = None, group: Any = None, **kwargs: Any) -> None:
        seen.append((values.clone(), str(op), group if group is None else group is torch.distributed.group.WORLD))
        answer(values)

    with mock.patch.object(torch.distributed, "all_reduce", reduce):
        yield seen


def _list_gradients(module: Any) -> list[bool]:
    return [parameter.grad is not None for parameter in module.parameters()]


@family("engine.modes", "verl.workers.engine.base")
def modes(call: Call) -> Cases:
    """Yield cases of entering and leaving modes, and of optimizer steps."""
    side, kept = call.side, {"zero_grad_on_exit": False}
    for mode in ("train", "eval"):
        for offloaded in ((), ("param_offload",), ("optimizer_offload",)):
            changes: dict[str, Any] = dict.fromkeys(offloaded, True)
            for label, options in (("", {}), ("/stays", {"disable_auto_offload": True})):
                yield f"{mode}/{'+'.join(offloaded)}{label}", call(_enter, side, mode, changes, options)
        yield f"{mode}/gradients kept", call(_enter, side, mode, {}, kept)
        yield f"{mode}/fails", call(_enter, side, mode, {}, kept, fails=True)
    for (label, gradient), scaled in product(
        zip(("finite", "infinite", "not a number", "small"), GRADIENTS, strict=True), (False, True)
    ):
        yield f"step/{label}/scaled {scaled}", call(_step, side, gradient, scaled)
    yield "step/no clipping", lambda: outcome(made_engine(side, clip=None).optimizer_step)
    yield "step/loose", call(_step, side, 0.5, False, clip=1e6)
    yield "deterministic", call(_run_deterministic, side)


def _enter(side: Side, mode: str, changes: dict[str, Any], options: dict[str, Any], *, fails: bool = False) -> Any:
    made = made_engine(side, **changes)
    moved: list[Any] = []
    made.to = lambda device, model=True, optimizer=True, grad=True: moved.append((device, model, optimizer, grad))
    made.module.train(mode == "eval")
    group, share = (side.get(f"verl.utils.ulysses:{name}_ulysses_sequence_parallel_group") for name in ("get", "set"))
    share("outside")
    made.ulysses_parallel_group = "inside"
    for parameter in made.module.parameters():
        parameter.grad = torch.ones_like(parameter)

    def inside() -> Any:
        with getattr(made, f"{mode}_mode")(**options):
            found = made.mode, made.module.training, group()
            if fails:
                raise ValueError("inside")
        return found

    found = outcome(inside), made.mode, moved, _list_gradients(made.module), made.module.training, group()
    share(None)
    return found


def _step(side: Side, gradient: float, scaled: bool, *, clip: float = 1.0) -> Any:
    made = made_engine(side, clip=clip)
    weights = with_gradients(made.module, gradient)
    if scaled:
        made.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
        made.scaler.scale(torch.ones(()))
    said = printed(made.optimizer_step)
    scale = made.scaler.get_scale() if scaled and hasattr(made, "scaler") else None
    return said, scale, weights[:3], [parameter.grad for parameter in weights[:3]]


def _run_deterministic(side: Side) -> Any:
    """Return what determinism sets and the numbers drawn; restore settings."""
    backends = torch.backends.cudnn
    before = backends.deterministic, backends.benchmark, backends.enabled
    environment = dict(os.environ)
    with mock.patch.dict(os.environ):
        side.get("verl.workers.engine.utils:enable_full_determinism")(seed=11)
        found = {name: value for name, value in os.environ.items() if environment.get(name) != value}
    drawn = [random.random(), float(np.random.rand()), torch.rand(2), backends.deterministic, backends.benchmark]
    backends.deterministic, backends.benchmark, backends.enabled = before
    return found, drawn, torch.are_deterministic_algorithms_enabled()


def _train(
    side: Side,
    dtype: str = "float32",
    dynamic: bool = False,
    packed: bool = False,
    *,
    loss_mode: str = "vanilla",
    values: bool = False,
    weights: bool = False,
    broken: bool = False,
    sharded: bool = False,
    scaled: bool = False,
    engine: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    **changes: Any,
) -> Any:
    name = "FSDPEngineWithValueHead" if values else "FSDPEngineWithLMHead"
    made = made_engine(side, name, remove_padding=packed, dtype=dtype, **(engine or {}))
    synchronised = _shard(side, made) if sharded else []
    if scaled:
        made.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    if values:
        config = inputs.config(cliprange_value=0.3, loss_agg_mode="token-mean", loss_scale_factor=None)
        loss = functools.partial(_get_value_loss(side), config)
    else:
        loss = functools.partial(_run_loss, side, losses_config(side, policy_loss={"loss_mode": loss_mode}, **changes))
    entropy = not values and changes.get("entropy_coeff", 0.01) != 0
    asked = {"use_dynamic_bsz": dynamic, "use_remove_padding": packed, "calculate_entropy": entropy, **(settings or {})}
    seen = []
    with made.train_mode(disable_auto_offload=True):
        for _ in range(2):
            batch = unpadded(side, **asked)
            if weights:
                batch["rollout_is_weights"] = inputs.normal(SIZE, RESPONSE, seed=707).exp()
            if broken:
                batch["advantages"][0, 0] = float("inf")
            seen.append(_unpack(outcome(made.train_batch, batch, loss_function=loss)))
    whole = {
        name: getattr(value, "full_tensor", lambda value=value: value)()
        for name, value in made.module.named_parameters()
    }
    return seen, whole, _list_gradients(made.module), made.module.training, synchronised


def _shard(side: Side, engine: Any) -> list[bool]:
    """Shard a model; return the growing list of gradient sync flags."""
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    wrap = inputs.config(wrap_policy={"transformer_layer_cls_to_wrap": ["Qwen2DecoderLayer"]})
    side.get("verl.utils.fsdp_utils:apply_fsdp2")(engine.module, {"mesh": mesh}, wrap)
    engine.optimizer = torch.optim.AdamW(engine.module.parameters(), lr=1e-2, weight_decay=0.01)
    asked: list[bool] = []
    synchronise = engine.module.set_requires_gradient_sync

    def noted(value: bool) -> None:
        asked.append(value)
        synchronise(value)

    engine.module.set_requires_gradient_sync = noted
    return asked


def _run_loss(side: Side, config: Any, **inputs: Any) -> Any:
    with mean_over_the_batch(side, config.policy_loss.loss_mode, config):
        return side.get(f"{LOSSES}:ppo_loss")(config, **inputs)


def _unpack(output: Any) -> Any:
    """Return losses and metrics as numbers."""
    if isinstance(output, Exception):
        return output
    kept = {name: value.requires_grad for name, value in output.get("model_output", {}).items()}
    return output["loss"], {name: metric_of(value) for name, value in output["metrics"].items()}, kept


@family("engine.values", ENGINE)
def value_model(call: Call) -> Cases:
    """Compute values and updates of the critic."""
    call.get("FSDPEngineWithValueHead")
    for dynamic, packed in product((False, True), (False, True)):
        label = f"dynamic {dynamic}/packed {packed}"
        case = call(_infer, call.side, "FSDPEngineWithValueHead", "float32", dynamic, packed)
        yield f"infer_batch/{label}", case
        yield f"train_batch/{label}", call(_train, call.side, "float32", dynamic, packed, values=True)


def _get_value_loss(side: Side) -> Any:
    """Return the value loss; upstream's with the named fix's counterpart."""
    loss = side.get(f"{LOSSES}:value_loss")
    if not side.upstream or "value-loss-over-the-batch" not in side.fixes:
        return loss
    core = side.module("verl.trainer.ppo.core_algos")
    metric = side.module("verl.utils.metric")

    def met(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> Any:
        sizes = {name: data[name] for name in ("dp_size", "batch_num_tokens", "global_batch_size")}
        with mock.patch.object(core, "agg_loss", functools.partial(core.agg_loss, **sizes)):
            found, metrics = loss(config, model_output=model_output, data=data, dp_group=dp_group)
        added = metric.Metric(value=found, aggregation=metric.AggregationType.SUM)
        return found, {**metrics, "critic/vf_loss": added}

    return met
