# mypy: disable-error-code="misc, attr-defined, assignment, no-untyped-call"
"""The training engine on a tiny model: log-probabilities, values, optimizer steps; padding taken away and put back."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from . import inputs, tiny
from .cases import Thunk, family, outcome
from .cases_losses import actor_dataclass, mean_over_the_batch
from .cases_models import RESPONSE, SIZE, process_group, tokens
from .sides import Side

ENGINE = "verl.workers.engine.fsdp.transformer_impl"
LOSSES = "verl.workers.utils.losses"
PADDING = "verl.workers.utils.padding"
TENSORS = "verl.utils.tensordict_utils"


def meet_attention(side: Side) -> None:
    """Give upstream the plain torch helpers that a named fix gives the project: its own come from flash-attn."""
    if not side.upstream or hasattr(side.module("verl.utils.attention_utils"), "_fallback_unpad_input"):
        return

    def unpad_input(states: torch.Tensor, mask: torch.Tensor) -> tuple[Any, ...]:
        indices = mask.flatten().nonzero().flatten()
        lengths = mask.sum(dim=-1, dtype=torch.int32)
        starts = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
        return states.flatten(0, 1)[indices], indices, starts, int(lengths.max()), lengths

    def index_first_axis(states: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        return states[indices]

    module = side.module(PADDING)
    module.unpad_input, module.index_first_axis = unpad_input, index_first_axis


def unpadded(side: Side, **settings: Any) -> Any:
    """Return the shared batch as the engine takes it."""
    meet_attention(side)
    data = tokens(side)
    data.meta_info = {"temperature": 0.9}
    batch = side.get(f"{PADDING}:left_right_2_no_padding")(data.to_tensordict())
    settings = {
        "use_dynamic_bsz": False,
        "micro_batch_size_per_gpu": 4,
        "max_token_len_per_gpu": 30,
        "use_remove_padding": False,
        "global_batch_size": SIZE,
        **settings,
    }
    side.get(f"{TENSORS}:assign_non_tensor")(batch, **settings)
    return batch


def made_engine(side: Side, name: str, *, remove_padding: bool = False, dtype: str = "float32", **changes: Any) -> Any:
    """Return an engine around a model that is there: what upstream builds itself is left out on both sides."""
    process_group()
    value_head = name == "FSDPEngineWithValueHead"
    module = tiny.model("Qwen2ForTokenClassification") if value_head else tiny.model()
    config = side.get("verl.workers.config.engine:FSDPEngineConfig")
    optimizer = side.get("verl.workers.config.optimizer:FSDPOptimizerConfig")
    made = side.get(f"{ENGINE}:{name}")(
        SimpleNamespace(use_remove_padding=remove_padding, lora_rank=0, get=lambda key, default=None: default),
        config(strategy="fsdp2", use_torch_compile=False, **changes),
        optimizer(lr=1e-2, clip_grad=1.0),
        None,
    )
    made.module, made.lr_scheduler = module, None
    made.optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, weight_decay=0.01)
    made._autocast_dtype = getattr(torch, dtype)
    return made


def losses_config(side: Side, **changes: Any) -> Any:
    """Return the actor's section as upstream's dataclass."""
    settings = inputs.actor_settings(**changes)
    settings["policy_loss"] = {**settings["policy_loss"], **changes.get("policy_loss", {})}
    for name in ("use_torch_compile",):
        settings.pop(name, None)
    settings["fsdp_config"] = side.get("verl.workers.config.engine:FSDPEngineConfig")(strategy="fsdp2")
    return actor_dataclass(side, settings)


@family("engine", ENGINE)
def language_model(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of log-probabilities and updates, by precision, packing and loss."""
    for dtype in ("float32", "bfloat16"):
        for dynamic in (False, True):
            for packed in (False, True):
                label = f"{dtype}/dynamic {dynamic}/packed {packed}"
                yield (
                    f"infer_batch/{label}",
                    functools.partial(_infer, side, "FSDPEngineWithLMHead", dtype, dynamic, packed),
                )
                yield f"train_batch/{label}", functools.partial(_train, side, dtype, dynamic, packed)
    for name in sorted(side.module("verl.trainer.ppo.core_algos").POLICY_LOSS_REGISTRY):
        yield f"train_batch/{name}", functools.partial(_train, side, loss_mode=name)
    for mode in ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"):
        yield f"train_batch/{mode}", functools.partial(_train, side, loss_agg_mode=mode)
    for label, changes in (
        ("no entropy", {"entropy_coeff": 0.0}),
        ("no KL", {"use_kl_loss": False}),
        ("rollout weights", {"weights": True}),
        ("not finite", {"broken": True}),
        ("checkpointed entropy", {"engine": {"entropy_checkpointing": True}}),
        ("chunked entropy", {"engine": {"entropy_from_logits_with_chunking": True}}),
    ):
        yield f"train_batch/{label}", functools.partial(_train, side, **changes)


def _infer(side: Side, name: str, dtype: str, dynamic: bool, packed: bool) -> Any:
    engine = made_engine(side, name, remove_padding=packed, dtype=dtype)
    batch = unpadded(side, use_dynamic_bsz=dynamic, use_remove_padding=packed, calculate_entropy=True)
    with engine.eval_mode(disable_auto_offload=True):
        outputs = engine.infer_batch(batch)["model_output"]
    back = side.get(f"{PADDING}:no_padding_2_padding")
    return {key: back(value, batch) for key, value in outputs.items()}


def _train(
    side: Side,
    dtype: str = "float32",
    dynamic: bool = False,
    packed: bool = False,
    *,
    loss_mode: str = "vanilla",
    weights: bool = False,
    broken: bool = False,
    engine: dict[str, Any] | None = None,
    **changes: Any,
) -> Any:
    made = made_engine(side, "FSDPEngineWithLMHead", remove_padding=packed, dtype=dtype, **(engine or {}))
    config = losses_config(side, policy_loss={"loss_mode": loss_mode}, **changes)
    loss = functools.partial(_policy_loss, side, config)
    seen = []
    with made.train_mode(disable_auto_offload=True):
        for _ in range(2):
            entropy = changes.get("entropy_coeff", 0.01) != 0
            batch = unpadded(side, use_dynamic_bsz=dynamic, use_remove_padding=packed, calculate_entropy=entropy)
            if weights:
                batch["rollout_is_weights"] = inputs.normal(SIZE, RESPONSE, seed=707).exp()
            if broken:
                batch["advantages"][0, 0] = float("inf")
            seen.append(_plain(outcome(made.train_batch, batch, loss_function=loss)))
    return seen, dict(made.module.named_parameters())


def _policy_loss(side: Side, config: Any, **inputs: Any) -> Any:
    with mean_over_the_batch(side, config.policy_loss.loss_mode, config):
        return side.get(f"{LOSSES}:ppo_loss")(config, **inputs)


def _plain(output: Any) -> Any:
    """Losses and metrics as numbers: a metric of verl's is an object with its values."""
    if isinstance(output, Exception):
        return output
    metrics = {
        name: getattr(value, "values", value) if not isinstance(value, (list, float)) else value
        for name, value in output["metrics"].items()
    }
    return output["loss"], metrics


@family("engine.values", ENGINE)
def value_model(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Compute values and updates of the critic."""
    side.get(f"{ENGINE}:FSDPEngineWithValueHead")
    for dynamic in (False, True):
        for packed in (False, True):
            label = f"dynamic {dynamic}/packed {packed}"
            yield (
                f"infer_batch/{label}",
                functools.partial(_infer, side, "FSDPEngineWithValueHead", "float32", dynamic, packed),
            )
            yield f"train_batch/{label}", functools.partial(_train_values, side, dynamic, packed)


def _train_values(side: Side, dynamic: bool, packed: bool) -> Any:
    made = made_engine(side, "FSDPEngineWithValueHead", remove_padding=packed)
    config = inputs.config(cliprange_value=0.3, loss_agg_mode="token-mean", loss_scale_factor=None)
    loss = functools.partial(_value_loss(side), config)
    with made.train_mode(disable_auto_offload=True):
        batch = unpadded(side, use_dynamic_bsz=dynamic, use_remove_padding=packed)
        seen = _plain(outcome(made.train_batch, batch, loss_function=loss))
    return seen, dict(made.module.named_parameters())


def _value_loss(side: Side) -> Any:
    """Verl's loss; upstream's gets what a named fix gives the project's: sizes of the batch, a metric to add up."""
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


@family("padding", PADDING)
def padding(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Take rows without their padding, and back."""
    yield "left_right_2_no_padding", lambda: _unnested(unpadded(side))
    module = side.module(PADDING)
    for name in ("response_from_nested", "response_to_nested", "build_attention_mask_from_nested"):
        with contextlib.suppress(AttributeError):
            yield name, functools.partial(_nested_call, side, getattr(module, name), name)


def _nested_call(side: Side, function: Any, name: str) -> Any:
    batch = unpadded(side)
    ids = batch["input_ids"]
    mask = torch.nested.as_nested_tensor([row[row.bool()] for row in batch["response_mask"]], layout=torch.jagged)
    if name == "build_attention_mask_from_nested":
        return function(ids)
    made = function(ids if name == "response_from_nested" else batch["advantages"], mask)
    return list(made.unbind())


def _unnested(batch: Any) -> dict[str, Any]:
    found = {}
    for name, value in batch.items():
        nested = isinstance(value, torch.Tensor) and value.is_nested
        found[str(name)] = list(value.unbind()) if nested else value
    return found
