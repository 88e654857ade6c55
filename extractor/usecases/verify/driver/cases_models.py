# mypy: disable-error-code="misc, attr-defined, assignment, no-untyped-call"
"""Cases of actor, critic and rollout on a tiny model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from . import inputs, tiny
from .cases import Thunk, family, outcome, printed
from .cases_losses import actor_dataclass
from .sides import NotVendored, Side

ACTOR = "verl.workers.actor.dp_actor"
CRITIC = "verl.workers.critic.dp_critic"
ROLLOUT = "verl.workers.rollout.hf_rollout"
_ON_CUDA = "hf-rollout-autocast-device"
FSDP = "verl.utils.fsdp_utils"
SIZE = 8
PROMPT = 5
RESPONSE = 6


def process_group() -> None:
    """Set up a process group of one: upstream asks for the rank."""
    if not torch.distributed.is_initialized():
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)


def tokens(side: Side, **meta: Any) -> Any:
    """Make prompts and responses, padded on both sides."""
    generator = torch.Generator().manual_seed(701)
    ids = torch.randint(3, 30, (SIZE, PROMPT + RESPONSE), generator=generator)
    left = torch.tensor([0, 2, 1, 0, 3, 0, 1, 2])
    right = torch.tensor([6, 3, 6, 1, 4, 6, 2, 5])
    place = torch.arange(PROMPT + RESPONSE)[None, :]
    mask = ((place >= left[:, None]) & (place < PROMPT + right[:, None])).long()
    ids = ids * mask
    position = (mask.cumsum(-1) - 1).clamp(min=0)
    response_mask = mask[:, PROMPT:]
    tensors = {
        "prompts": ids[:, :PROMPT],
        "responses": ids[:, PROMPT:],
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": position,
        "response_mask": response_mask,
        "old_log_probs": -inputs.normal(SIZE, RESPONSE, seed=702).abs() - 2,
        "ref_log_prob": -inputs.normal(SIZE, RESPONSE, seed=703).abs() - 2,
        "advantages": inputs.normal(SIZE, RESPONSE, seed=704) * response_mask,
        "returns": inputs.normal(SIZE, RESPONSE, seed=705) * response_mask,
        "values": inputs.normal(SIZE, RESPONSE, seed=706) * response_mask,
    }
    meta = {"temperature": 0.9, "micro_batch_size": 4, "use_dynamic_bsz": False, "max_token_len": 30, **meta}
    return side.get("verl.protocol:DataProto").from_dict(tensors=tensors, meta_info=meta)


@contextlib.contextmanager
def autocast_counterpart(side: Side, fix: str, dtype: str) -> Iterator[None]:
    """Give upstream the dtype that a named fix takes from the configuration, and the device that another one does.

    Upstream itself has bfloat16 fixed; and 0.4.0 has CUDA fixed, for a rollout.
    """
    is_fixed = fix in side.fixes
    if not side.upstream or not (is_fixed or _ON_CUDA in side.fixes):
        yield
        return
    original = torch.autocast

    def autocast(device_type: str, dtype_: Any = None, *args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.pop("dtype", dtype_)
        if is_fixed and wanted is torch.bfloat16:
            wanted = getattr(torch, dtype)
        if _ON_CUDA in side.fixes and not torch.cuda.is_available():
            device_type = "cpu"
        return original(device_type, wanted, *args, **kwargs)

    torch.autocast = autocast
    try:
        yield
    finally:
        torch.autocast = original


# Actor


@family("dp_actor", ACTOR)
def actor(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of log-probabilities and updates, by loss and setting, in both precisions."""
    yield "reference", lambda: _reference(side)
    for dtype in ("float32", "bfloat16"):
        for dynamic in (False, True):
            yield (
                f"compute_log_prob/{dtype}/dynamic {dynamic}",
                lambda dtype=dtype, dynamic=dynamic: _log_probs(side, dtype, dynamic),
            )
    # Before 0.6 "vanilla" stands outside of the registry.
    for name in sorted({"vanilla", *getattr(side.module("verl.trainer.ppo.core_algos"), "POLICY_LOSS_REGISTRY", {})}):
        yield f"update_policy/{name}", lambda name=name: _update(side, loss_mode=name)
    variants: dict[str, dict[str, Any]] = {
        "bfloat16": {"dtype": "bfloat16"},
        "mapping": {"kind": "mapping"},
        "epochs": {"ppo_epochs": 2},
        "on policy": {"ppo_mini_batch_size": SIZE},
        "no entropy": {"entropy_coeff": 0.0},
        "no KL": {"use_kl_loss": False},
        "chunked entropy": {"entropy_from_logits_with_chunking": True},
        "checkpointed entropy": {"entropy_checkpointing": True},
        "dynamic": {"use_dynamic_bsz": True},
        "sequence mean": {"loss_agg_mode": "seq-mean-token-sum"},
        "not finite": {"broken": True},
        "rollout weights": {"weights": True},
        "rollout log-probs": {"rollout": True},
        "dropout": {"dropout": 0.5},
        "loose clipping": {"grad_clip": 1e6},
        "loss scale": {"loss_agg_mode": "seq-mean-token-sum-norm", "loss_scale_factor": 3},
        "kl": {"kl_loss_type": "kl", "kl_loss_coef": 0.5},
        "uneven": {"ppo_mini_batch_size": 3},
        "epochs on policy": {"ppo_mini_batch_size": SIZE, "ppo_epochs": 2},
        "rollout's as old ones": {"use_rollout_log_probs": True, "ppo_mini_batch_size": SIZE},
    }
    for label, changes in variants.items():
        yield (
            f"update_policy/{label}",
            lambda changes=changes: outcome(_update, side, **changes),
        )
    for gradient in (0.5, float("inf"), float("nan"), 1e-9):
        yield (
            f"step/{gradient}",
            lambda gradient=gradient: _stepped(_actor(side, "float32"), "actor", gradient),
        )
    yield "step/no clipping", lambda: _stepped(_actor(side, "float32", grad_clip=None), "actor", 0.5)
    yield "compute_log_prob/dropout", lambda: _without_dropout(side)
    for temperature in (1.0, 0.25):
        yield (
            f"compute_log_prob/{temperature}",
            lambda temperature=temperature: _reference(side, temperature=temperature),
        )


def _stepped(trainer: Any, role: str, gradient: float) -> Any:
    """Return what a step says, and weights and gradients after it."""
    weights = list(getattr(trainer, f"{role}_module").parameters())
    for index, parameter in enumerate(weights):
        parameter.grad = torch.full_like(parameter, gradient if index == 1 else 0.01 * index)
    said = printed(trainer._optimizer_step)
    return said, weights[:3], [parameter.grad for parameter in weights[:3]]


def _without_dropout(side: Side) -> Any:
    with autocast_counterpart(side, "actor-autocast-dtype", "float32"):
        made = _actor(side, "float32", dropout=0.5)
        return made.compute_log_prob(tokens(side)), made.actor_module.training


def _actor(
    side: Side,
    dtype: str,
    *,
    kind: str = "dataclass",
    optimizer: bool = True,
    dropout: float = 0.0,
    **changes: Any,
) -> Any:
    process_group()
    module = tiny.model(attention_dropout=dropout)
    settings = inputs.actor_settings(**changes)
    config: Any = None
    if kind == "dataclass":
        with contextlib.suppress(NotVendored, TypeError):  # 0.6.0's has no dtype: there it is a mapping
            settings["fsdp_config"] = side.get("verl.workers.config.engine:FSDPEngineConfig")(dtype=dtype)
            config = actor_dataclass(side, settings)
    if config is None:
        settings |= {"fsdp_config": {"dtype": dtype}, "calculate_entropy": False}  # which 0.7.1 asks a mapping for
        config = inputs.config(**settings)
    update = torch.optim.AdamW(module.parameters(), lr=1e-2, weight_decay=0.01) if optimizer else None
    return side.get(f"{ACTOR}:DataParallelPPOActor")(config, module, update)


def _reference(side: Side, **meta: Any) -> Any:
    with autocast_counterpart(side, "actor-autocast-dtype", "float32"):
        return _actor(side, "float32", optimizer=False).compute_log_prob(tokens(side, **meta))


def _log_probs(side: Side, dtype: str, dynamic: bool) -> Any:
    with autocast_counterpart(side, "actor-autocast-dtype", dtype):
        data = tokens(side, use_dynamic_bsz=dynamic)
        return _actor(side, dtype).compute_log_prob(data, calculate_entropy=True)


def _update(
    side: Side,
    dtype: str = "float32",
    *,
    loss_mode: str = "vanilla",
    broken: bool = False,
    weights: bool = False,
    rollout: bool = False,
    **changes: Any,
) -> Any:
    changes["policy_loss"] = {**inputs.actor_settings()["policy_loss"], "loss_mode": loss_mode}
    if loss_mode in ("rollout_correction", "bypass_mode"):
        # Upstream's dataclass has no such field: the trainer adds it to the mapping.
        changes["kind"] = "mapping"
        changes["policy_loss"]["rollout_correction"] = inputs.ROLLOUT_CORRECTION
    made = _actor(side, dtype, **changes)
    data = tokens(side)
    if broken:
        data.batch["advantages"][0, 0] = float("inf")
    if weights:
        data.batch["rollout_is_weights"] = inputs.normal(SIZE, RESPONSE, seed=707).exp()
    if rollout:
        data.batch["rollout_log_probs"] = data.batch["old_log_probs"] + 0.1
    with autocast_counterpart(side, "actor-autocast-dtype", dtype):
        metrics = [made.update_policy(data) for _ in range(2)]
    return metrics, dict(made.actor_module.named_parameters()), _state(made.actor_module)


def _state(module: Any) -> Any:
    """Return which gradients are left, and whether the model is being trained."""
    left = [parameter.grad is not None and bool(parameter.grad.any()) for parameter in module.parameters()]
    return left, module.training


@family(
    "dp_actor.remove_padding",
    ACTOR,
    fixes=("actor-remove-padding-without-flash-attn", "remove-padding-without-flash-attn"),
)
def without_padding(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Leave padding out; upstream's way needs flash-attn here."""
    yield "compute_log_prob", lambda: _unpadded(side)


def _unpadded(side: Side) -> Any:
    with autocast_counterpart(side, "actor-autocast-dtype", "float32"):
        return _actor(side, "float32", kind="mapping", use_remove_padding=True).compute_log_prob(tokens(side))


# Critic


@family("dp_critic", CRITIC)
def critic(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Compute values and updates, in both precisions."""
    for gradient in (0.5, float("inf"), float("nan"), 1e-9):
        yield (
            f"step/{gradient}",
            lambda gradient=gradient: _stepped(_critic(side, "float32"), "critic", gradient),
        )
    for dtype in ("float32", "bfloat16"):
        for dynamic in (False, True):
            for masked in (False, True):
                yield (
                    f"compute_values/{dtype}/dynamic {dynamic}/mask {masked}",
                    lambda dtype=dtype, dynamic=dynamic, masked=masked: _values(side, dtype, dynamic, masked),
                )
        for label, changes in (
            ("plain", {}),
            ("epochs", {"ppo_epochs": 2}),
            ("dynamic", {"use_dynamic_bsz": True}),
            ("not finite", {"broken": True}),
            ("dropout", {"dropout": 0.5}),
            ("loose clipping", {"grad_clip": 1e6}),
            ("sequence mean", {"loss_agg_mode": "seq-mean-token-sum"}),
        ):
            yield (
                f"update_critic/{dtype}/{label}",
                lambda dtype=dtype, changes=changes: _update_critic(side, dtype, **changes),
            )


def _critic(side: Side, dtype: str, *, dropout: float = 0.0, **changes: Any) -> Any:
    process_group()
    module = tiny.model("Qwen2ForTokenClassification", attention_dropout=dropout)
    settings = {
        "ppo_mini_batch_size": 4,
        "ppo_micro_batch_size_per_gpu": 2,
        "ppo_max_token_len_per_gpu": 40,
        "ppo_epochs": 1,
        "use_dynamic_bsz": False,
        "cliprange_value": 0.3,
        "loss_agg_mode": "token-mean",
        "grad_clip": 1.0,
        "ulysses_sequence_parallel_size": 1,
        "model": {"use_remove_padding": False, "fsdp_config": {"dtype": dtype}},
        **changes,
    }
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    return side.get(f"{CRITIC}:DataParallelPPOCritic")(inputs.config(**settings), module, optimizer)


def _values(side: Side, dtype: str, dynamic: bool, masked: bool) -> Any:
    data = tokens(side, use_dynamic_bsz=dynamic)
    if not masked:
        data.pop(batch_keys=["response_mask"])
    with autocast_counterpart(side, "critic-autocast-dtype", dtype):
        made = _critic(side, dtype, dropout=0.5)
        return outcome(made.compute_values, data), made.critic_module.training


def _update_critic(side: Side, dtype: str, *, broken: bool = False, **changes: Any) -> Any:
    made = _critic(side, dtype, **changes)
    data = tokens(side)
    if broken:
        data.batch["returns"][0, 0] = float("inf")
    with autocast_counterpart(side, "critic-autocast-dtype", dtype):
        metrics = [made.update_critic(data) for _ in range(2)]
    return metrics, dict(made.critic_module.named_parameters()), _state(made.critic_module)


# Rollout


@family("hf_rollout", ROLLOUT)
def rollout(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Write greedy and sampled responses."""
    for dtype in ("float32", "bfloat16"):
        for label, meta in (
            ("greedy", {"do_sample": False}),
            ("sampled", {"do_sample": True, "temperature": 0.8, "top_p": 0.9, "top_k": 20}),
            ("sampled by config", {}),
            ("validation", {"validate": True}),
            ("short", {"do_sample": False, "response_length": 3}),
            ("early end", {"do_sample": False, "eos_token_id": list(range(3, 20))}),
            ("all end", {"do_sample": False, "eos_token_id": list(range(40))}),
            ("another padding", {"do_sample": False, "eos_token_id": list(range(3, 20)), "pad_token_id": 2}),
            ("all tokens", {"top_k": 0, "top_p": 1.0}),
            ("few tokens", {"top_k": 2}),
            ("validation, greedy", {"validate": True, "do_sample": False}),
        ):
            yield f"{dtype}/{label}", lambda dtype=dtype, meta=meta: _generate(side, dtype, meta)
        yield (
            f"{dtype}/micro batches",
            lambda dtype=dtype: _generate(side, dtype, {"do_sample": False}, micro_batch_size=2),
        )
    for size in (3, 5, 9):
        yield (
            f"micro batches of {size}",
            lambda size=size: _generate(side, "float32", {"do_sample": False}, micro_batch_size=size),
        )
    yield "by default", lambda: _generate(side, "float32", {}, top_p=None, top_k=None, temperature=0.7)
    yield "greedy by config", lambda: _generate(side, "float32", {}, do_sample=False)


def _generate(side: Side, dtype: str, meta: dict[str, Any], **changes: Any) -> Any:
    cls = side.get(f"{ROLLOUT}:HFRollout")
    # Upstream's class is abstract and its constructor fails (fix hf-rollout-base): both sides skip it.
    complete = type("Complete", (cls,), {})
    complete.__abstractmethods__ = frozenset()
    made: Any = object.__new__(complete)
    settings: dict[str, Any] = {
        "dtype": dtype,
        "do_sample": True,
        "temperature": 1.0,
        "top_p": 0.95,
        "top_k": -1,
        "response_length": RESPONSE,
        "val_kwargs": {"top_k": 10, "top_p": 0.9, "temperature": 0.7},
        **changes,
    }
    made.config = inputs.config(**{name: value for name, value in settings.items() if value is not None})
    made.module = _GeneratingModel(
        tiny.model(attention_dropout=0.5), drops_positions=side.upstream and "hf-rollout-position-ids" in side.fixes
    )
    whole = tokens(side)
    prompts = side.get("verl.protocol:DataProto").from_dict(
        tensors={key: whole.batch[key][:, :PROMPT] for key in ("input_ids", "attention_mask", "position_ids")},
        meta_info={"eos_token_id": 1, "pad_token_id": 0, **meta},
    )
    torch.manual_seed(708)
    with autocast_counterpart(side, "hf-rollout-autocast-dtype", dtype):
        return outcome(made.generate_sequences, prompts), made.module.training


class _GeneratingModel:
    """A model whose `generate` can leave out the positions, which is what a named fix makes the project do."""

    def __init__(self, model: Any, *, drops_positions: bool) -> None:
        self.model = model
        self.drops_positions = drops_positions

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """Generate."""
        if self.drops_positions:
            kwargs.pop("position_ids", None)
        return self.model.generate(*args, **kwargs)


# Sharding


@family("fsdp_utils", FSDP)
def sharding(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Wrap, load and clip by FSDP2 in one process. Without a wrap policy it raises on some transformers."""
    yield "apply, load, clip", lambda: outcome(_sharded, side)
    yield "wrap policy", lambda: _sharded(side, wrap_policy={"transformer_layer_cls_to_wrap": "Qwen2MLP"})
    yield (
        "prefetch",
        lambda: _sharded(side, wrap_policy={"transformer_layer_cls_to_wrap": ["Qwen2MLP"]}, forward_prefetch=True),
    )
    yield (
        "tied",
        lambda: _sharded(side, tied=True, wrap_policy={"transformer_layer_cls_to_wrap": ["Qwen2MLP"]}),
    )
    yield "nothing to wrap", lambda: outcome(_sharded, side, wrap_policy={"transformer_layer_cls_to_wrap": []})
    for label, norm in (("loose", {"max_norm": 1e6}), ("other norm", {"max_norm": 0.1, "norm_type": 1.0})):
        yield f"clip/{label}", lambda norm=norm: _clipped(side, 0.5, **norm)
    yield "clip/infinite", lambda: outcome(_clipped, side, float("inf"), max_norm=1.0, error_if_nonfinite=True)
    yield "optimizer's state moves", lambda: _moved(side)
    yield "version", lambda: side.get(f"{FSDP}:fsdp_version")(tiny.model())


def _clipped(side: Side, gradient: float, **options: Any) -> Any:
    weights = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(1))]
    weights[0].grad, weights[1].grad = torch.full((3,), gradient), torch.tensor([0.25, -2.0])
    clip = side.get(f"{FSDP}:fsdp2_clip_grad_norm_")
    found = clip(iter(weights), **options), [weight.grad for weight in weights]
    return found, clip(weights[0], max_norm=1.0), weights[0].grad


def _moved(side: Side) -> Any:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight])
    load, offload = (side.get(f"{FSDP}:{name}") for name in ("load_fsdp_optimizer", "offload_fsdp_optimizer"))
    before = [outcome(load, optimizer, "meta"), outcome(offload, optimizer)]
    weight.grad = torch.ones(3)
    optimizer.step()
    offload(optimizer)
    devices = [str(value.device) for value in optimizer.state[weight].values()]
    load(optimizer, "meta")
    return before, devices, [str(value.device) for value in optimizer.state[weight].values()]


def _sharded(side: Side, *, tied: bool = False, **config: Any) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    process_group()
    mesh = init_device_mesh("cpu", (1,))
    module = tiny.model(tie_word_embeddings=tied)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    side.get(f"{FSDP}:apply_fsdp2")(module, {"mesh": mesh, "reshard_after_forward": True}, inputs.config(**config))
    side.get(f"{FSDP}:fsdp2_load_full_state_dict")(module, state, mesh, None)
    parts = {name: part for name, part in module.named_modules() if "FSDP" in type(part).__name__}
    sharded = [(name, len(part._get_fsdp_state()._states_to_forward_prefetch)) for name, part in sorted(parts.items())]
    ids = tokens(side).batch["input_ids"]
    module(input_ids=ids).logits.square().mean().backward()
    norm = side.get(f"{FSDP}:fsdp2_clip_grad_norm_")(module.parameters(), max_norm=0.1)
    gradients = {
        name: parameter.grad.full_tensor()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
    return sharded, getattr(norm, "full_tensor", lambda: norm)(), gradients
