"""Define cases of unpadded batches, and of losses and distillation over them."""

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import torch

from . import inputs
from .cases import Call, Cases, family, outcome
from .cases_losses import losses_config
from .cases_models import PROMPT, SIZE, tokens
from .sides import Side

LOSSES = "verl.workers.utils.losses"
PADDING = "verl.workers.utils.padding"
TENSORS = "verl.utils.tensordict_utils"
DISTILLATION = "verl.trainer.distillation.losses"
VOCABULARY, TOPK = 30, 5
# What the engine notes of the batch that a pass is a part of.
NOTED = {"dp_size": 2, "batch_num_tokens": 61, "global_batch_size": 17}


def meet_attention(side: Side) -> None:
    """Give upstream the fixed project's torch helpers instead of flash-attn's."""
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


def unpadded(side: Side, *, temperature: Any = 0.9, **settings: Any) -> Any:
    """Return the shared batch unpadded, with settings that are not None."""
    meet_attention(side)
    data = tokens(side)
    data.meta_info = {"temperature": temperature}
    batch = side.get(f"{PADDING}:left_right_2_no_padding")(data.to_tensordict())
    settings = {
        "use_dynamic_bsz": False,
        "micro_batch_size_per_gpu": 4,
        "max_token_len_per_gpu": 30,
        "use_remove_padding": False,
        "global_batch_size": SIZE,
        **settings,
    }
    known = {key: value for key, value in settings.items() if value is not None}
    side.get(f"{TENSORS}:assign_non_tensor")(batch, **known)
    return batch


@family("padding", PADDING)
def padding(call: Call) -> Cases:
    """Take rows without their padding, and back."""
    side, back = call.side, "no_padding_2_padding"

    def padded_again(change: Callable[[Any], Any], *, prompts: bool = True) -> Any:
        batch = unpadded(side)
        if not prompts:
            batch["attention_mask"][0, :PROMPT] = 0
        return call.get(back)(change(batch["input_ids"]), batch)

    def nested(name: str) -> Any:
        batch = unpadded(side)
        ids, function = batch["input_ids"], call.get(name)
        if name == "build_attention_mask_from_nested":
            return function(ids)
        mask = torch.nested.as_nested_tensor([row[row.bool()] for row in batch["response_mask"]], layout=torch.jagged)
        return list(function(ids if name == "response_from_nested" else batch["advantages"], mask).unbind())

    yield "left_right_2_no_padding", lambda: _unnest_batch(unpadded(side))
    yield f"{back}/flat", call(padded_again, lambda values: values.values())
    yield f"{back}/short", call(padded_again, lambda values: values.values()[:-1])
    yield f"{back}/no prompt", call(padded_again, lambda values: values, prompts=False)
    for name in ("response_from_nested", "response_to_nested", "build_attention_mask_from_nested"):
        if hasattr(side.module(PADDING), name):
            yield name, lambda: nested(name)


def _unnest_batch(batch: Any) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return list(value.unbind()) if isinstance(value, torch.Tensor) and value.is_nested else value

    return {str(name): plain(value) for name, value in batch.items()}


def metric_of(value: Any) -> Any:
    """Return a metric as numbers, unpacking verl's metric objects."""
    if isinstance(value, list):
        return [metric_of(item) for item in value]
    return (value.aggregation.name, value.values) if hasattr(value, "aggregation") else value


@family("losses", LOSSES)
def losses(call: Call) -> Cases:
    """Yield cases of the actor's loss by known batch sizes."""
    nothing: dict[str, Any] = {"dp_size": 1, "batch_num_tokens": None, "global_batch_size": None}
    for label, known, changes in (
        ("nothing known", {}, {}),
        ("processes", {"dp_size": 2}, {}),
        ("tokens", {"batch_num_tokens": 61}, {}),
        ("rows", {"global_batch_size": 17}, {"loss_agg_mode": "seq-mean-token-mean"}),
        ("scale", {}, {"loss_scale_factor": 5, "loss_agg_mode": "seq-mean-token-sum-norm"}),
        ("all", {"dp_size": 2, "batch_num_tokens": 61, "global_batch_size": 17}, {"use_kl_loss": False}),
    ):
        yield label, call(_call_loss, call.side, {**nothing, **known}, changes)


def _call_loss(side: Side, known: dict[str, Any], changes: dict[str, Any]) -> Any:
    config, batch = losses_config(side, **changes), unpadded(side)
    side.get(f"{TENSORS}:assign_non_tensor")(batch, **known)
    offsets = batch["input_ids"].offsets()
    leaves = [-inputs.normal(int(offsets[-1]), seed=seed).abs().requires_grad_() for seed in (711, 712)]
    nested = [torch.nested.nested_tensor_from_jagged(leaf, offsets) for leaf in leaves]
    output = dict(zip(("log_probs", "entropy"), nested, strict=True))
    loss, metrics = side.get(f"{LOSSES}:ppo_loss")(config, model_output=output, data=batch)
    loss.backward()
    return loss, {name: metric_of(value) for name, value in metrics.items()}, [leaf.grad for leaf in leaves]


@family("distillation.losses", DISTILLATION)
def distillation_losses(call: Call) -> Cases:
    """Yield cases of every distillation loss, with rewards, clamped and chunked."""
    names = sorted(call.side.module(DISTILLATION).DISTILLATION_LOSS_REGISTRY)
    for name, use_policy_gradient, use_task_rewards in product(names, (True, False), (True, False)):
        kind = f"{'advantage' if use_policy_gradient else 'loss'}{'/rewards' if use_task_rewards else ''}"
        changes = {"use_policy_gradient": use_policy_gradient, "use_task_rewards": use_task_rewards}
        yield f"{name}/{kind}", lambda: _learn(call.side, name, changes)
    clamped = {"use_policy_gradient": False, "loss_max_clamp": 0.3, "log_prob_min_clamp": -2.0}
    for name in ("k3", "forward_kl_topk"):
        yield f"{name}/clamped", lambda: _learn(call.side, name, clamped)
    # By pieces of the logits; releases that do not know them learn it at once.
    alone = {"use_policy_gradient": False, "use_task_rewards": False}
    chunks = {"use_chunked_topk": True, "chunked_topk_chunk_size": 7}
    yield "forward_kl_topk/chunked", lambda: _learn(call.side, "forward_kl_topk", alone, **chunks)


def _learn(side: Side, name: str, changes: dict[str, Any], **attributes: Any) -> Any:
    """Return loss, metrics and gradient, or the exception raised."""
    losses = side.module(DISTILLATION)
    settings: Any = outcome(
        side.get("verl.workers.config.distillation:DistillationLossConfig"), loss_mode=name, topk=TOPK, **changes
    )
    if isinstance(settings, Exception):
        return settings
    for key, value in attributes.items():
        object.__setattr__(settings, key, value)
    # "fsdp", and the sizes that are noted before: what named fixes give the project's side.
    config, distillation = losses_config(side, strategy="fsdp"), SimpleNamespace(distillation_loss=settings)
    config.global_batch_info.update({**NOTED, "loss_scale_factor": config.loss_scale_factor})
    batch = _make_batch(side, by_topk=settings.loss_settings.use_topk)
    ids, offsets = batch["input_ids"].values(), batch["input_ids"].offsets()
    logits = inputs.normal(len(ids), VOCABULARY, seed=801).requires_grad_()
    following = logits.log_softmax(-1).gather(-1, ids.roll(-1).unsqueeze(-1)).squeeze(-1)
    output = {"log_probs": torch.nested.nested_tensor_from_jagged(following, offsets)}
    if settings.loss_settings.use_topk:
        found = losses.distillation_ppo_loss(config, distillation, None, batch, student_logits=logits.unsqueeze(0))
        output |= {key: torch.nested.nested_tensor_from_jagged(value[0], offsets) for key, value in found.items()}
    loss, metrics = losses.distillation_ppo_loss(config, distillation, output, batch)
    loss.backward()
    return loss, {key: getattr(value, "values", value) for key, value in metrics.items()}, logits.grad


def _make_batch(side: Side, *, by_topk: bool) -> Any:
    """Return the shared batch without padding, with teacher log-probabilities."""
    meet_attention(side)
    data = tokens(side)
    ids = data.batch["input_ids"]
    said = inputs.normal(SIZE, ids.shape[1], VOCABULARY, seed=802).log_softmax(-1)
    if by_topk:
        data.batch["teacher_logprobs"], data.batch["teacher_ids"] = said.topk(TOPK, dim=-1)
    else:
        data.batch["teacher_ids"] = ids.roll(-1, 1).unsqueeze(-1)
        data.batch["teacher_logprobs"] = said.gather(-1, data.batch["teacher_ids"])
    batch = side.get(f"{PADDING}:left_right_2_no_padding")(data.to_tensordict())
    side.get(f"{TENSORS}:assign_non_tensor")(batch, **NOTED)
    return batch
