"""Cases of actor, critic and rollout on a tiny model."""

import contextlib
import copy
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch

from . import inputs
from .cases import CaseMaker, Cases, capture_outcome, capture_output, family
from .cases_losses import actor_dataclass
from .inputs import BATCH, LENGTH, PROMPT, SETTINGS
from .pool import make_step
from .sides import NotVendored, Side

ACTOR = "verl.workers.actor.dp_actor"
CRITIC = "verl.workers.critic.dp_critic"
ROLLOUT = "verl.workers.rollout.hf_rollout"
GRADIENTS = (0.5, float("inf"), float("nan"), 1e-9)
DTYPES = ("float32", "bfloat16")


def start_process_group() -> None:
    """Initialize a process group of one; upstream asks for its rank."""
    if not torch.distributed.is_initialized():
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)


def make_optimizer(module: Any, decay: float = 0.01) -> Any:
    """Return AdamW for a model's weights."""
    return torch.optim.AdamW(module.parameters(), lr=1e-2, weight_decay=decay)


def take_step(module: Any, step: Callable[[], Any], gradient: float) -> Any:
    """Step with made-up gradients; return what is said, and weights and gradients after it."""
    weights = list(module.parameters())
    for index, parameter in enumerate(weights):
        parameter.grad = torch.full_like(parameter, gradient if index == 1 else 0.01 * index)
    return capture_output(step), weights[:3], [parameter.grad for parameter in weights[:3]]


def read_state(module: Any) -> Any:
    """Return the weights, which of them have gradients, and whether the model is training."""
    weights = {name: getattr(value, "full_tensor", lambda: value)() for name, value in module.named_parameters()}
    left = [None if value.grad is None else bool((value.grad != 0).any()) for value in module.parameters()]
    return weights, left, module.training


def change_step(data: Any, *, broken: str = "", weights: bool = False) -> None:
    """Give a batch a number that is not finite, or weights of a rollout."""
    if broken:
        data[broken][0, 0] = float("inf")
    if weights:
        data["rollout_is_weights"] = inputs.normal(BATCH, LENGTH, seed=707).exp()


def list_losses(side: Side) -> list[str]:
    """Return the names of policy losses; before 0.6 "vanilla" stands outside of the registry."""
    core = side.module("verl.trainer.ppo.core_algos")
    return sorted({"vanilla", *getattr(core, "POLICY_LOSS_REGISTRY", {})})


@family("dp_actor", ACTOR)
def actor(call: CaseMaker) -> Cases:
    """Yield cases of the actor's log-probabilities and updates."""
    side = call.side
    yield "reference", call(_log_probs, side)
    for dtype, dynamic in product(DTYPES, (False, True)):
        asked = {"calculate_entropy": True}
        case = call(_log_probs, side, dtype, {"optimizer": True}, asked, use_dynamic_bsz=dynamic)
        yield f"compute_log_prob/{dtype}/dynamic {dynamic}", case
    yield "compute_log_prob/dropout", call(_log_probs, side, made={"optimizer": True, "dropout": 0.5})
    for name in list_losses(side):
        yield f"update_policy/{name}", call(_update_actor, side, loss_mode=name)
    yield from call.each("update_policy/", _update_actor, SETTINGS["updates"] | SETTINGS["actor_updates"], side)
    for gradient in GRADIENTS:
        made = _make_actor(side)
        yield f"step/{gradient}", call(take_step, made.actor_module, made._optimizer_step, gradient)


def _make_actor(
    side: Side,
    dtype: str = "float32",
    *,
    kind: str = "dataclass",
    optimizer: bool = True,
    dropout: float = 0.0,
    **changes: Any,
) -> Any:
    start_process_group()
    module = inputs.model(attention_dropout=dropout)
    settings = inputs.actor_settings(**changes)
    config: Any = None
    if kind == "dataclass":
        with contextlib.suppress(NotVendored, TypeError):  # 0.6.0's has no dtype: there it is a mapping
            settings["fsdp_config"] = side.get("verl.workers.config.engine:FSDPEngineConfig")(dtype=dtype)
            config = actor_dataclass(side, settings)
    if config is None:
        settings |= {"fsdp_config": {"dtype": dtype}, "calculate_entropy": False}  # which 0.7.1 asks a mapping for
        config = inputs.config(**settings)
    return side.get(f"{ACTOR}:DataParallelPPOActor")(config, module, make_optimizer(module) if optimizer else None)


def _log_probs(
    side: Side,
    dtype: str = "float32",
    made: dict[str, Any] | None = None,
    asked: dict[str, Any] | None = None,
    **meta: Any,
) -> Any:
    """Return the actor's log-probabilities, and whether its model is training."""
    actor = _make_actor(side, dtype, **{"optimizer": False, **(made or {})})
    return actor.compute_log_prob(make_step(side, **meta), **(asked or {})), actor.actor_module.training


def _update_actor(
    side: Side,
    dtype: str = "float32",
    *,
    loss_mode: str = "vanilla",
    rollout: bool = False,
    left_out: Sequence[str] = (),
    broken: bool = False,
    weights: bool = False,
    **changes: Any,
) -> Any:
    changes["policy_loss"] = {**SETTINGS["actor"]["policy_loss"], "loss_mode": loss_mode}
    if loss_mode in ("rollout_correction", "bypass_mode"):
        # Upstream's dataclass has no such field: the trainer adds it to the mapping.
        changes["kind"] = "mapping"
        changes["policy_loss"]["rollout_correction"] = SETTINGS["rollout_correction"]
    made, data = _make_actor(side, dtype, **changes), make_step(side)
    data.pop(batch_keys=list(left_out))
    change_step(data.batch, broken="advantages" if broken else "", weights=weights)
    if rollout:
        data.batch["rollout_log_probs"] = data.batch["old_log_probs"] + 0.1
    return [made.update_policy(data) for _ in range(2)], read_state(made.actor_module)


@family("dp_critic", CRITIC)
def critic(call: CaseMaker) -> Cases:
    """Compute values and updates, in both precisions."""
    side = call.side
    for gradient in GRADIENTS:
        made = _make_critic(side, "float32")
        yield f"step/{gradient}", call(take_step, made.critic_module, made._optimizer_step, gradient)
    for dtype in DTYPES:
        for dynamic, masked in product((False, True), (False, True)):
            label = f"compute_values/{dtype}/dynamic {dynamic}/mask {masked}"
            yield label, call(_run_critic, side, dtype, dynamic, masked)
        yield from call.each(f"update_critic/{dtype}/", _update_critic, SETTINGS["critic_updates"], side, dtype)


def _make_critic(side: Side, dtype: str, *, dropout: float = 0.0, **changes: Any) -> Any:
    start_process_group()
    module = inputs.model("Qwen2ForTokenClassification", attention_dropout=dropout)
    model = {"use_remove_padding": False, "fsdp_config": {"dtype": dtype}}
    config = inputs.config(**{**SETTINGS["critic"], "model": model, **changes})
    return side.get(f"{CRITIC}:DataParallelPPOCritic")(config, module, make_optimizer(module))


def _run_critic(side: Side, dtype: str, dynamic: bool, masked: bool) -> Any:
    data = make_step(side, use_dynamic_bsz=dynamic)
    if not masked:
        data.pop(batch_keys=["response_mask"])
    made = _make_critic(side, dtype, dropout=0.5)
    return capture_outcome(made.compute_values, data), made.critic_module.training


def _update_critic(side: Side, dtype: str, *, broken: bool = False, **changes: Any) -> Any:
    made, data = _make_critic(side, dtype, **changes), make_step(side)
    change_step(data.batch, broken="returns" if broken else "")
    return [made.update_critic(data) for _ in range(2)], read_state(made.critic_module)


@family("hf_rollout", ROLLOUT)
def rollout(call: CaseMaker) -> Cases:
    """Write greedy and sampled responses."""
    for dtype in DTYPES:
        told = {label: {"meta": meta} for label, meta in SETTINGS["generations"].items()}
        yield from call.each(f"{dtype}/", _generate, told | SETTINGS["generation_configs"], call.side, dtype)


def _generate(side: Side, dtype: str, meta: dict[str, Any] | None = None, **changes: Any) -> Any:
    # Upstream's class is abstract and its constructor fails (fix hf-rollout-base): both sides skip it.
    complete = type("Complete", (side.get(f"{ROLLOUT}:HFRollout"),), {})
    complete.__abstractmethods__ = frozenset()
    made: Any = object.__new__(complete)
    settings: dict[str, Any] = {**SETTINGS["rollout"], "dtype": dtype, "response_length": 6, **changes}
    made.config = inputs.config(**{name: value for name, value in settings.items() if value is not None})
    made.module = inputs.model(attention_dropout=0.5)
    whole = make_step(side)
    prompts = side.get("verl.protocol:DataProto").from_dict(
        tensors={key: whole.batch[key][:, :PROMPT] for key in ("input_ids", "attention_mask", "position_ids")},
        meta_info={"eos_token_id": 1, "pad_token_id": 0, **(meta or {})},
    )
    torch.manual_seed(708)
    return capture_outcome(made.generate_sequences, prompts), made.module.training


# Sharding


@family("fsdp_utils", "verl.utils.fsdp_utils")
def sharding(call: CaseMaker) -> Cases:
    """Yield cases of wrapping, loading and clipping with FSDP2."""
    mlp, mlps = ({"transformer_layer_cls_to_wrap": layers} for layers in ("Qwen2MLP", ["Qwen2MLP"]))
    yield "apply, load, clip", call(_shard, call)
    # What fails on upstream's side alone, without CUDA in 0.4.0, is no result to compare.
    yield "wrap policy", lambda: _shard(call, wrap_policy=mlp)
    yield "prefetch", lambda: _shard(call, wrap_policy=mlps, forward_prefetch=True)
    yield "tied", lambda: _shard(call, tied=True, wrap_policy=mlps)
    yield "clip/loose", lambda: _clip_weights(call, max_norm=1e6)
    yield "clip/other norm", lambda: _clip_weights(call, max_norm=0.1, norm_type=1.0)
    yield "optimizer's state moves", call(_move, call)


def _clip_weights(call: CaseMaker, **options: Any) -> Any:
    weights = [torch.nn.Parameter(torch.ones(count)) for count in (3, 2, 1)]
    weights[0].grad, weights[1].grad = torch.full((3,), 0.5), torch.tensor([0.25, -2.0])
    clip = call.get("fsdp2_clip_grad_norm_")
    found = clip(iter(weights), **options), [copy.deepcopy(weight.grad) for weight in weights]
    return found, clip(weights[0], max_norm=1.0), weights[0].grad


def _move(call: CaseMaker) -> Any:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight])
    load, offload = call.get("load_fsdp_optimizer"), call.get("offload_fsdp_optimizer")
    before = [capture_outcome(load, optimizer, "meta"), capture_outcome(offload, optimizer)]
    weight.grad = torch.ones(3)
    optimizer.step()
    offload(optimizer)
    devices = [str(value.device) for value in optimizer.state[weight].values()]
    load(optimizer, "meta")
    return before, devices, [str(value.device) for value in optimizer.state[weight].values()]


def _shard(call: CaseMaker, *, tied: bool = False, **config: Any) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    start_process_group()
    mesh, module = init_device_mesh("cpu", (1,)), inputs.model(tie_word_embeddings=tied)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    call.get("apply_fsdp2")(module, {"mesh": mesh, "reshard_after_forward": True}, config)
    call.get("fsdp2_load_full_state_dict")(module, state, mesh, None)
    parts = {name: part for name, part in module.named_modules() if "FSDP" in type(part).__name__}
    sharded = [(name, len(part._get_fsdp_state()._states_to_forward_prefetch)) for name, part in sorted(parts.items())]
    module(input_ids=make_step(call.side).batch["input_ids"]).logits.square().mean().backward()
    norm = call.get("fsdp2_clip_grad_norm_")(module.parameters(), max_norm=0.1)
    gradients = {name: value.grad.full_tensor() for name, value in module.named_parameters() if value.grad is not None}
    return sharded, getattr(norm, "full_tensor", lambda: norm)(), gradients
