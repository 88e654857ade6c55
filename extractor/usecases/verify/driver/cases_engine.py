"""Cases of the training engine on a tiny model."""

import functools
import os
import random
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch

from . import inputs
from .cases import CaseMaker, Cases, capture_outcome, family
from .cases_losses import make_losses_config
from .cases_models import (
    DTYPES,
    GRADIENTS,
    change_step,
    list_losses,
    make_optimizer,
    read_state,
    start_process_group,
    take_step,
)
from .cases_padding import LOSSES, PADDING, TENSORS, make_unpadded
from .inputs import SETTINGS
from .pool import AGG_MODES
from .sides import Side

# Class of the engine, by class of the model.
HEADS = {"Qwen2ForCausalLM": "FSDPEngineWithLMHead", "Qwen2ForTokenClassification": "FSDPEngineWithValueHead"}
ENGINE = "verl.workers.engine.fsdp.transformer_impl"
# What of an update's settings is the engine's; the rest is the loss's.
_OWN = ("dropout", "clip", "entropy_checkpointing", "entropy_from_logits_with_chunking")
ENGINES = (*_OWN, "entropy_from_logits_chunk_size", "use_no_sync_for_gradient_accumulation")


def make_engine(
    side: Side,
    head: str = "Qwen2ForCausalLM",
    *,
    packed: bool = False,
    dtype: str = "float32",
    dropout: float = 0.0,
    clip: float | None = 1.0,
    **changes: Any,
) -> Any:
    """Return an engine around a ready model, skipping upstream's own building."""
    start_process_group()
    module = inputs.model(head, attention_dropout=dropout)
    config = side.get("verl.workers.config.engine:FSDPEngineConfig")
    optimizer = side.get("verl.workers.config.optimizer:FSDPOptimizerConfig")
    made = side.get(f"{ENGINE}:{HEADS[head]}")(
        SimpleNamespace(use_remove_padding=packed, lora_rank=0, get=lambda key, default=None: default),
        config(**{"strategy": "fsdp2", "use_torch_compile": False, **changes}),
        optimizer(lr=1e-2, clip_grad=clip),
        None,
    )
    made.module, made.lr_scheduler, made.optimizer = module, None, make_optimizer(module)
    made._autocast_dtype = getattr(torch, dtype)
    return made


@family("engine", ENGINE)
def language_model(call: CaseMaker) -> Cases:
    """Yield cases of log-probabilities, values and updates, by precision, packing and loss."""
    side = call.side
    for head, dtype, dynamic, packed in product(HEADS, DTYPES, (False, True), (False, True)):
        label, ways = f"{head}/{dtype}/dynamic {dynamic}/packed {packed}", {"dtype": dtype, "packed": packed}
        yield f"infer_batch/{label}", call(_infer, side, head, use_dynamic_bsz=dynamic, engine=ways)
        yield f"train_batch/{label}", call(_train, side, head, dynamic=dynamic, **ways)
    for name in list_losses(side):
        yield f"train_batch/{name}", call(_train, side, loss_mode=name)
    for mode in AGG_MODES[:-1]:
        yield f"train_batch/{mode}", call(_train, side, loss_agg_mode=mode)
    yield from call.each("train_batch/", _train, SETTINGS["updates"] | SETTINGS["engine_updates"], side)
    for packed in (False, True):
        ask = functools.partial(_infer, engine={"packed": packed})
        yield from call.each(f"infer_batch/packed {packed}/", ask, SETTINGS["questions"], side)
    chunked = {"entropy_from_logits_with_chunking": True, "entropy_from_logits_chunk_size": 3}
    for ways in ({"pad_to_length": True, "pad_to_length_bucket": 16}, chunked, {"dropout": 0.5}):
        yield f"infer_batch/{next(iter(ways))}", call(_infer, side, engine={"packed": True, **ways})
    for packed, fused in product((False, True), (False, True)):
        yield f"given to the model/packed {packed}/fused {fused}", call(_prepare, side, packed, fused)
    yield "sequence parallel", call(make_engine, side, ulysses_sequence_parallel_size=2)
    for dynamic in (False, True):
        yield f"asked of other processes/dynamic {dynamic}", call(_record_all_reduce, side, dynamic)


def _infer(side: Side, head: str = "Qwen2ForCausalLM", *, engine: dict[str, Any], **settings: Any) -> Any:
    known = side.get("verl.workers.config.engine:FSDPEngineConfig").__dataclass_fields__
    ways = {key: value for key, value in engine.items() if key in known or key in ("dropout", "packed", "dtype")}
    made = make_engine(side, head, **ways)
    asked = {"use_remove_padding": made.model_config.use_remove_padding, "calculate_entropy": True, **settings}
    batch = make_unpadded(side, **asked)
    with made.eval_mode(disable_auto_offload=True):
        outputs = made.infer_batch(batch)["model_output"]
    back = side.get(f"{PADDING}:no_padding_2_padding")
    return {key: back(value, batch) for key, value in outputs.items()}, made.module.training


def _prepare(side: Side, packed: bool, fused: bool) -> Any:
    """Return a batch's model inputs and the arguments to decode outputs."""
    batch = make_unpadded(side, use_remove_padding=packed, use_fused_kernels=fused)
    return make_engine(side, packed=packed).prepare_model_inputs(micro_batch=batch)


def _record_all_reduce(side: Side, dynamic: bool) -> Any:
    """Return all-reduce calls, output and batch sizes of a training pass."""
    made, config = make_engine(side), make_losses_config(side)
    batch, read = make_unpadded(side, use_dynamic_bsz=dynamic), side.get(f"{TENSORS}:get_non_tensor_data")
    seen: list[Any] = []

    def reduce(values: torch.Tensor, op: Any = None, group: Any = None, **kwargs: Any) -> None:
        seen.append((values.clone(), str(op), group if group is None else group is torch.distributed.group.WORLD))
        values.mul_(2)

    replaced = mock.patch.object(torch.distributed, "all_reduce", reduce)
    with replaced, made.train_mode(disable_auto_offload=True):
        output = made.train_batch(batch, loss_function=functools.partial(side.get(f"{LOSSES}:ppo_loss"), config))
    told = [read(batch, key, "nothing") for key in ("sp_size", "dp_size", "batch_num_tokens", "global_batch_size")]
    return seen, output, told


@family("engine.modes", "verl.workers.engine.base")
def modes(call: CaseMaker) -> Cases:
    """Yield cases of entering and leaving modes, and of optimizer steps."""
    side, kept = call.side, {"zero_grad_on_exit": False}
    for mode in ("train", "eval"):
        offloads, stays = ((), ("param_offload",), ("optimizer_offload",)), {"disable_auto_offload": True}
        for offloaded, options in product(offloads, ({}, stays)):
            label = f"{mode}/{'+'.join(offloaded)}{'/stays' * bool(options)}"
            yield label, call(_enter, side, mode, dict.fromkeys(offloaded, True), options)
        yield f"{mode}/gradients kept", call(_enter, side, mode, {}, kept)
        yield f"{mode}/fails", call(_enter, side, mode, {}, kept, fails=True)
    for gradient, scaled in product(GRADIENTS, (False, True)):
        yield f"step/{gradient}/scaled {scaled}", call(_step, side, gradient, scaled=scaled)
    for clip in (None, 1e6):
        yield f"step/clip {clip}", call(_step, side, 0.5, clip=clip)
    yield "deterministic", call(_run_deterministic, side)


def _enter(side: Side, mode: str, changes: dict[str, Any], options: dict[str, Any], *, fails: bool = False) -> Any:
    made = make_engine(side, **changes)
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

    found = capture_outcome(inside), made.mode, moved, read_state(made.module)[1:], group()
    share(None)
    return found


def _set_scaler(engine: Any) -> None:
    engine.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)


def _step(side: Side, gradient: float, *, scaled: bool = False, clip: float | None = 1.0) -> Any:
    made = make_engine(side, clip=clip)
    if scaled:
        _set_scaler(made)
        made.scaler.scale(torch.ones(()))
    found = take_step(made.module, made.optimizer_step, gradient)
    return found, made.scaler.get_scale() if scaled else None


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
    head: str = "Qwen2ForCausalLM",
    *,
    dtype: str = "float32",
    dynamic: bool = False,
    packed: bool = False,
    loss_mode: str = "vanilla",
    weights: bool = False,
    broken: bool = False,
    sharded: bool = False,
    scaled: bool = False,
    settings: dict[str, Any] | None = None,
    **changes: Any,
) -> Any:
    """Return what two updates say, and the model after them."""
    ways = {key: changes.pop(key) for key in ENGINES if key in changes}
    made, values = make_engine(side, head, packed=packed, dtype=dtype, **ways), "Value" in HEADS[head]
    synchronised = _shard(side, made) if sharded else []
    if scaled:
        _set_scaler(made)
    if values:
        config = inputs.config(cliprange_value=0.3, loss_agg_mode="token-mean", loss_scale_factor=None)
        loss = functools.partial(side.get(f"{LOSSES}:value_loss"), config)
    else:
        config = make_losses_config(side, policy_loss={"loss_mode": loss_mode}, **changes)
        loss = functools.partial(side.get(f"{LOSSES}:ppo_loss"), config)
    entropy = not values and changes.get("entropy_coeff") != 0
    asked = {"use_dynamic_bsz": dynamic, "use_remove_padding": packed, "calculate_entropy": entropy, **(settings or {})}
    seen = []
    with made.train_mode(disable_auto_offload=True):
        for _ in range(2):
            batch = make_unpadded(side, **asked)
            change_step(batch, broken="advantages" if broken else "", weights=weights)
            seen.append(capture_outcome(made.train_batch, batch, loss_function=loss))
    return seen, read_state(made.module), synchronised


def _shard(side: Side, engine: Any) -> list[bool]:
    """Shard a model; return the growing list of gradient sync flags."""
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    wrap = inputs.config(wrap_policy={"transformer_layer_cls_to_wrap": ["Qwen2DecoderLayer"]})
    side.get("verl.utils.fsdp_utils:apply_fsdp2")(engine.module, {"mesh": mesh}, wrap)
    engine.optimizer = make_optimizer(engine.module)
    asked: list[bool] = []
    synchronise = engine.module.set_requires_gradient_sync

    def note(value: bool) -> None:
        asked.append(value)
        synchronise(value)

    engine.module.set_requires_gradient_sync = note
    return asked
