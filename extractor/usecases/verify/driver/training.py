"""What cases do with a tiny model: ask it for log-probabilities and values, train it, sample from it, shard it."""

import contextlib
import functools
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from . import inputs
from .calling import capture_outcome
from .inputs import PROMPT, SETTINGS, build_actor_config, config, make_step
from .losses import ENGINE_CONFIG, LOSSES, TENSORS, build_losses_config, make_unpadded
from .sides import NotVendored, Side

LANGUAGE, VALUE = "Qwen2ForCausalLM", "Qwen2ForTokenClassification"


def _start_process_group() -> None:
    """Initialize a process group of one; upstream asks for its rank."""
    if not torch.distributed.is_initialized():
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)


def _make_optimizer(module: Any) -> Any:
    return torch.optim.AdamW(module.parameters(), lr=1e-2, weight_decay=0.01)


# Actor, critic and rollout of releases before the engine


def make_actor(
    side: Side,
    dtype: str = "float32",
    *,
    form: str = "dataclass",
    loss_mode: str = "vanilla",
    learns: bool = True,
    dropout: float = 0.0,
    gradient: float | None = None,
    **changes: Any,
) -> Any:
    """Return an actor around a ready model."""
    module, settings = _make_module(LANGUAGE, dropout, gradient), None
    changes["losing"] = {"loss_mode": loss_mode}
    # Upstream's dataclass has no field for the correction of rollouts: the trainer adds it to the mapping.
    corrected = loss_mode in ("rollout_correction", "bypass_mode")
    if form == "dataclass" and not corrected:
        with contextlib.suppress(NotVendored, TypeError):  # 0.6.0's has no dtype: there it is a mapping
            settings = build_actor_config(side, fsdp_config=side.get(ENGINE_CONFIG)(dtype=dtype), **changes)
    if settings is None:
        changes["losing"] |= {"rollout_correction": SETTINGS["rollout_correction"]} if corrected else {}
        changes |= {"fsdp_config": {"dtype": dtype}, "calculate_entropy": False}  # which 0.7.1 asks a mapping for
        settings = build_actor_config(side, "mapping", **changes)
    cls = side.get("verl.workers.actor.dp_actor:DataParallelPPOActor")
    return cls(settings, module, _make_optimizer(module) if learns else None)


def make_critic(
    side: Side, dtype: str = "float32", *, dropout: float = 0.0, gradient: float | None = None, **changes: Any
) -> Any:
    """Return a critic around a ready model."""
    module = _make_module(VALUE, dropout, gradient)
    model = {"use_remove_padding": False, "fsdp_config": {"dtype": dtype}}
    settings = config(**{**SETTINGS["critic"], "model": model, **changes})
    cls = side.get("verl.workers.critic.dp_critic:DataParallelPPOCritic")
    return cls(settings, module, _make_optimizer(module))


def _make_module(kind: str, dropout: float, gradient: float | None) -> Any:
    """Return a model, whose weights have made-up gradients where one is chosen."""
    _start_process_group()
    module = inputs.model(kind, attention_dropout=dropout)
    for index, parameter in enumerate(module.parameters() if gradient is not None else ()):
        parameter.grad = torch.full_like(parameter, gradient if index == 1 else 0.01 * index)
    return module


def make_rollout(side: Side, **changes: Any) -> Any:
    """Return a rollout around a ready model."""
    # Upstream's class is abstract and its constructor fails (fix hf-rollout-base): both sides skip it.
    complete = type("Complete", (side.get("verl.workers.rollout.hf_rollout:HFRollout"),), {})
    complete.__abstractmethods__ = frozenset()
    made: Any = object.__new__(complete)
    settings: dict[str, Any] = {**SETTINGS["rollout"], "response_length": 6, **changes}
    made.config = config(**{name: value for name, value in settings.items() if value is not None})
    made.module = inputs.model(attention_dropout=0.5)
    return made


def make_prompts(side: Side, **meta: Any) -> Any:
    """Return prompts, with what a batch tells a rollout."""
    whole = make_step(side)
    return side.get(inputs.PROTOCOL).from_dict(
        tensors={key: whole.batch[key][:, :PROMPT] for key in ("input_ids", "attention_mask", "position_ids")},
        meta_info={"eos_token_id": 1, "pad_token_id": 0, **meta},
    )


# Sharding


def shard(side: Side, *, tied: bool = False, **settings: Any) -> Any:
    """Wrap and load a model by FSDP2; return what was wrapped, and clipped gradients of a pass."""
    from torch.distributed.device_mesh import init_device_mesh

    _start_process_group()
    names = ("apply_fsdp2", "fsdp2_load_full_state_dict", "fsdp2_clip_grad_norm_")
    wrap, load, clip = (side.get(f"verl.utils.fsdp_utils:{name}") for name in names)
    mesh, module = init_device_mesh("cpu", (1,)), inputs.model(tie_word_embeddings=tied)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    wrap(module, {"mesh": mesh, "reshard_after_forward": True}, settings)
    load(module, state, mesh, None)
    parts = {name: part for name, part in module.named_modules() if "FSDP" in type(part).__name__}
    sharded = [(name, len(part._get_fsdp_state()._states_to_forward_prefetch)) for name, part in sorted(parts.items())]
    module(input_ids=make_step(side).batch["input_ids"]).logits.square().mean().backward()
    return sharded, clip(module.parameters(), max_norm=0.1), module


def make_moved_optimizer(side: Side, *, stepped: bool = True) -> Any:
    """Return an optimizer, with a state where it has made a step."""
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight])
    if stepped:
        weight.grad = torch.ones(3)
        optimizer.step()
    return optimizer


# The engine


def make_engine(
    side: Side,
    head: str = LANGUAGE,
    *,
    packed: bool = False,
    dtype: str = "float32",
    dropout: float = 0.0,
    clip: float | None = 1.0,
    mode: str = "",
    gradient: float | None = None,
    scaled: bool = False,
    **changes: Any,
) -> Any:
    """Return an engine around a ready model, skipping upstream's own building, in a mode if one is named."""
    module, kind = _make_module(head, dropout, gradient), side.get(ENGINE_CONFIG)
    known = {key: value for key, value in changes.items() if key in kind.__dataclass_fields__}
    name = "FSDPEngineWithLMHead" if head == LANGUAGE else "FSDPEngineWithValueHead"
    made = side.get(f"verl.workers.engine.fsdp.transformer_impl:{name}")(
        SimpleNamespace(use_remove_padding=packed, lora_rank=0, get=lambda key, default=None: default),
        kind(**{"strategy": "fsdp2", "use_torch_compile": False, **known}),
        side.get("verl.workers.config.optimizer:FSDPOptimizerConfig")(lr=1e-2, clip_grad=clip),
        None,
    )
    made.module, made.lr_scheduler, made.optimizer = module, None, _make_optimizer(module)
    made._autocast_dtype = getattr(torch, dtype)
    if scaled:
        made.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
        made.scaler.scale(torch.ones(()))
    if mode:
        getattr(made, f"{mode}_mode")(disable_auto_offload=True).__enter__()
    return made


def make_loss(side: Side, loss_mode: str = "vanilla", **changes: Any) -> Any:
    """Return a policy loss as an engine takes it."""
    chosen = build_losses_config(side, losing={"loss_mode": loss_mode}, **changes)
    return functools.partial(side.get(f"{LOSSES}:ppo_loss"), chosen)


def make_value_loss(side: Side) -> Any:
    """Return the loss of values as an engine takes it."""
    chosen = config(cliprange_value=0.3, loss_agg_mode="token-mean", loss_scale_factor=None)
    return functools.partial(side.get(f"{LOSSES}:value_loss"), chosen)


def train_sharded(side: Side, **settings: Any) -> Any:
    """Return what training a sharded model says, and when gradients were synchronised."""
    made = make_engine(side, mode="train", **settings)
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    wrap = config(wrap_policy={"transformer_layer_cls_to_wrap": ["Qwen2DecoderLayer"]})
    side.get("verl.utils.fsdp_utils:apply_fsdp2")(made.module, {"mesh": mesh}, wrap)
    made.optimizer = _make_optimizer(made.module)
    synchronise = made.module.set_requires_gradient_sync
    with mock.patch.object(made.module, "set_requires_gradient_sync", wraps=synchronise) as asked:
        trained = made.train_batch(make_unpadded(side, calculate_entropy=True), loss_function=make_loss(side))
    return trained, made.module, [call.args for call in asked.call_args_list]


def record_all_reduce(side: Side, dynamic: bool) -> Any:
    """Return all-reduce calls, output and batch sizes of a training pass."""
    made = make_engine(side)
    batch, read = make_unpadded(side, use_dynamic_bsz=dynamic), side.get(f"{TENSORS}:get_non_tensor_data")
    seen: list[Any] = []

    def reduce(values: torch.Tensor, op: Any = None, group: Any = None, **kwargs: Any) -> None:
        seen.append((values.clone(), str(op), group if group is None else group is torch.distributed.group.WORLD))
        values.mul_(2)

    replaced = mock.patch.object(torch.distributed, "all_reduce", reduce)
    with replaced, made.train_mode(disable_auto_offload=True):
        output = made.train_batch(batch, loss_function=make_loss(side))
    told = [read(batch, key, "nothing") for key in ("sp_size", "dp_size", "batch_num_tokens", "global_batch_size")]
    return seen, output, told


def enter_mode(
    side: Side, mode: str, offloads: str = "", options: dict[str, Any] | None = None, *, fails: bool = False
) -> Any:
    """Return what is so within a mode of the engine, and after it."""
    made = make_engine(side, **({offloads: True} if offloads else {}))
    moved: list[Any] = []
    made.to = lambda device, model=True, optimizer=True, grad=True: moved.append((device, model, optimizer, grad))
    made.module.train(mode == "eval")
    group, share = (side.get(f"verl.utils.ulysses:{name}_ulysses_sequence_parallel_group") for name in ("get", "set"))
    share("outside")
    made.ulysses_parallel_group = "inside"
    for parameter in made.module.parameters():
        parameter.grad = torch.ones_like(parameter)

    def inside() -> Any:
        with getattr(made, f"{mode}_mode")(**(options or {})):
            state = made.mode, made.module.training, group()
            if fails:
                raise ValueError("inside")
        return state

    state = capture_outcome(inside), made.mode, moved, made.module, group()
    share(None)
    return state
