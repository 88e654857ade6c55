"""Cases of actor, critic and rollout on a tiny model."""

import contextlib
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any
from unittest import mock

import torch

from . import inputs
from .cases import Call, Cases, family, outcome, printed
from .cases_losses import actor_dataclass
from .sides import NotVendored, Side

ACTOR = "verl.workers.actor.dp_actor"
CRITIC = "verl.workers.critic.dp_critic"
ROLLOUT = "verl.workers.rollout.hf_rollout"
_ON_CUDA = "hf-rollout-autocast-device"
SIZE = 8
PROMPT = 5
RESPONSE = 6
GRADIENTS = (0.5, float("inf"), float("nan"), 1e-9)
DTYPES = ("float32", "bfloat16")


def process_group() -> None:
    """Initialize a process group of one; upstream asks for its rank."""
    if not torch.distributed.is_initialized():
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)


def tokens(side: Side, **meta: Any) -> Any:
    """Make prompts and responses, padded on both sides."""
    left, right = torch.tensor([0, 2, 1, 0, 3, 0, 1, 2]), torch.tensor([6, 3, 6, 1, 4, 6, 2, 5])
    place = torch.arange(PROMPT + RESPONSE)[None, :]
    mask = ((place >= left[:, None]) & (place < PROMPT + right[:, None])).long()
    ids = inputs.integers(SIZE, PROMPT + RESPONSE, seed=701, low=3, high=30) * mask
    answered = mask[:, PROMPT:]
    numbers = {seed: inputs.normal(SIZE, RESPONSE, seed=seed) for seed in range(702, 707)}
    tensors = {
        "prompts": ids[:, :PROMPT],
        "responses": ids[:, PROMPT:],
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": (mask.cumsum(-1) - 1).clamp(min=0),
        "response_mask": answered,
        "old_log_probs": -numbers[702].abs() - 2,
        "ref_log_prob": -numbers[703].abs() - 2,
        "advantages": numbers[704] * answered,
        "returns": numbers[705] * answered,
        "values": numbers[706] * answered,
    }
    meta = {"temperature": 0.9, "micro_batch_size": 4, "use_dynamic_bsz": False, "max_token_len": 30, **meta}
    return side.get("verl.protocol:DataProto").from_dict(tensors=tensors, meta_info=meta)


@contextlib.contextmanager
def autocast_counterpart(side: Side, fix: str, dtype: str) -> Iterator[None]:
    """Patch upstream's autocast to the dtype and device of named fixes.

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

    with mock.patch.object(torch, "autocast", autocast):
        yield


def with_gradients(module: Any, gradient: float) -> list[Any]:
    """Return a model's weights with gradients; the second has `gradient`."""
    weights = list(module.parameters())
    for index, parameter in enumerate(weights):
        parameter.grad = torch.full_like(parameter, gradient if index == 1 else 0.01 * index)
    return weights


def trained_state(module: Any) -> Any:
    """Return which parameters have nonzero gradients, and the training mode."""
    left = [parameter.grad is not None and bool(parameter.grad.any()) for parameter in module.parameters()]
    return left, module.training


def _step(trainer: Any, role: str, gradient: float) -> Any:
    """Return what a step says, and weights and gradients after it."""
    weights = with_gradients(getattr(trainer, f"{role}_module"), gradient)
    said = printed(trainer._optimizer_step)
    return said, weights[:3], [parameter.grad for parameter in weights[:3]]


UPDATES: dict[str, dict[str, Any]] = {
    "bfloat16": {"dtype": "bfloat16"},
    "mapping": {"kind": "mapping"},
    "epochs": {"ppo_epochs": 2},
    "on policy": {"ppo_mini_batch_size": SIZE},
    "no entropy": {"entropy_coeff": 0.0},
    "no KL": {"use_kl_loss": False},
    "no reference": {"use_kl_loss": False, "left_out": ["ref_log_prob"]},
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


@family("dp_actor", ACTOR)
def actor(call: Call) -> Cases:
    """Yield cases of the actor's log-probabilities and updates."""
    side = call.side
    yield "reference", lambda: _log_probs(side)
    for dtype, dynamic in product(DTYPES, (False, True)):
        asked = {"calculate_entropy": True}
        case = call(_log_probs, side, dtype, {"optimizer": True}, asked, use_dynamic_bsz=dynamic)
        yield f"compute_log_prob/{dtype}/dynamic {dynamic}", case
    # Before 0.6 "vanilla" stands outside of the registry.
    for name in sorted({"vanilla", *getattr(side.module("verl.trainer.ppo.core_algos"), "POLICY_LOSS_REGISTRY", {})}):
        yield f"update_policy/{name}", lambda: _update(side, loss_mode=name)
    for label, changes in UPDATES.items():
        yield f"update_policy/{label}", call(_update, side, **changes)
    for gradient in GRADIENTS:
        yield f"step/{gradient}", lambda: _step(_make_actor(side), "actor", gradient)
    yield "compute_log_prob/dropout", lambda: _log_probs(side, made={"optimizer": True, "dropout": 0.5}, training=True)


def _make_actor(
    side: Side,
    dtype: str = "float32",
    *,
    kind: str = "dataclass",
    optimizer: bool = True,
    dropout: float = 0.0,
    **changes: Any,
) -> Any:
    process_group()
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
    update = torch.optim.AdamW(module.parameters(), lr=1e-2, weight_decay=0.01) if optimizer else None
    return side.get(f"{ACTOR}:DataParallelPPOActor")(config, module, update)


def _log_probs(
    side: Side,
    dtype: str = "float32",
    made: dict[str, Any] | None = None,
    asked: dict[str, Any] | None = None,
    *,
    training: bool = False,
    **meta: Any,
) -> Any:
    """Return the actor's log-probabilities, and training mode if asked."""
    with autocast_counterpart(side, "actor-autocast-dtype", dtype):
        actor = _make_actor(side, dtype, **{"optimizer": False, **(made or {})})
        found = actor.compute_log_prob(tokens(side, **meta), **(asked or {}))
    return (found, actor.actor_module.training) if training else found


def _update(
    side: Side,
    dtype: str = "float32",
    *,
    loss_mode: str = "vanilla",
    broken: bool = False,
    weights: bool = False,
    rollout: bool = False,
    left_out: Sequence[str] = (),
    **changes: Any,
) -> Any:
    changes["policy_loss"] = {**inputs.actor_settings()["policy_loss"], "loss_mode": loss_mode}
    if loss_mode in ("rollout_correction", "bypass_mode"):
        # Upstream's dataclass has no such field: the trainer adds it to the mapping.
        changes["kind"] = "mapping"
        changes["policy_loss"]["rollout_correction"] = inputs.ROLLOUT_CORRECTION
    made, data = _make_actor(side, dtype, **changes), tokens(side)
    if left_out:
        data.pop(batch_keys=list(left_out))
    if broken:
        data.batch["advantages"][0, 0] = float("inf")
    if weights:
        data.batch["rollout_is_weights"] = inputs.normal(SIZE, RESPONSE, seed=707).exp()
    if rollout:
        data.batch["rollout_log_probs"] = data.batch["old_log_probs"] + 0.1
    with autocast_counterpart(side, "actor-autocast-dtype", dtype):
        metrics = [made.update_policy(data) for _ in range(2)]
    return metrics, dict(made.actor_module.named_parameters()), trained_state(made.actor_module)


@family("dp_critic", CRITIC)
def critic(call: Call) -> Cases:
    """Compute values and updates, in both precisions."""
    side = call.side
    for gradient in GRADIENTS:
        yield f"step/{gradient}", lambda: _step(_make_critic(side, "float32"), "critic", gradient)
    for dtype in DTYPES:
        for dynamic, masked in product((False, True), (False, True)):
            label = f"compute_values/{dtype}/dynamic {dynamic}/mask {masked}"
            yield label, lambda: _run_critic(side, dtype, dynamic, masked)
        for label in ("plain", "epochs", "dynamic", "not finite", "dropout", "loose clipping", "sequence mean"):
            yield f"update_critic/{dtype}/{label}", lambda: _update_critic(side, dtype, **UPDATES.get(label, {}))


def _make_critic(side: Side, dtype: str, *, dropout: float = 0.0, **changes: Any) -> Any:
    process_group()
    module = inputs.model("Qwen2ForTokenClassification", attention_dropout=dropout)
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


def _run_critic(side: Side, dtype: str, dynamic: bool, masked: bool) -> Any:
    data = tokens(side, use_dynamic_bsz=dynamic)
    if not masked:
        data.pop(batch_keys=["response_mask"])
    with autocast_counterpart(side, "critic-autocast-dtype", dtype):
        made = _make_critic(side, dtype, dropout=0.5)
        return outcome(made.compute_values, data), made.critic_module.training


def _update_critic(side: Side, dtype: str, *, broken: bool = False, **changes: Any) -> Any:
    made, data = _make_critic(side, dtype, **changes), tokens(side)
    if broken:
        data.batch["returns"][0, 0] = float("inf")
    with autocast_counterpart(side, "critic-autocast-dtype", dtype):
        metrics = [made.update_critic(data) for _ in range(2)]
    return metrics, dict(made.critic_module.named_parameters()), trained_state(made.critic_module)


GENERATIONS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "temperature": 0.8, "top_p": 0.9, "top_k": 20},
    "sampled by config": {},
    "validation": {"validate": True},
    "short": {"do_sample": False, "response_length": 3},
    "early end": {"do_sample": False, "eos_token_id": list(range(3, 20))},
    "all end": {"do_sample": False, "eos_token_id": list(range(40))},
    "another padding": {"do_sample": False, "eos_token_id": list(range(3, 20)), "pad_token_id": 2},
    "all tokens": {"top_k": 0, "top_p": 1.0},
    "few tokens": {"top_k": 2},
    "validation, greedy": {"validate": True, "do_sample": False},
}


@family("hf_rollout", ROLLOUT)
def rollout(call: Call) -> Cases:
    """Write greedy and sampled responses."""
    side, greedy = call.side, GENERATIONS["greedy"]
    for dtype in DTYPES:
        for label, meta in GENERATIONS.items():
            yield f"{dtype}/{label}", lambda: _generate(side, dtype, meta)
        yield f"{dtype}/micro batches", lambda: _generate(side, dtype, greedy, micro_batch_size=2)
    yield "micro batches of 3", lambda: _generate(side, "float32", greedy, micro_batch_size=3)
    yield "by default", lambda: _generate(side, "float32", {}, top_p=None, top_k=None, temperature=0.7)
    yield "greedy by config", lambda: _generate(side, "float32", {}, do_sample=False)


def _generate(side: Side, dtype: str, meta: dict[str, Any], **changes: Any) -> Any:
    # Upstream's class is abstract and its constructor fails (fix hf-rollout-base): both sides skip it.
    complete = type("Complete", (side.get(f"{ROLLOUT}:HFRollout"),), {})
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
    made.module = inputs.model(attention_dropout=0.5)
    if side.upstream and "hf-rollout-position-ids" in side.fixes:
        generate = made.module.generate
        made.module.generate = lambda *args, position_ids=None, **kwargs: generate(*args, **kwargs)
    whole = tokens(side)
    prompts = side.get("verl.protocol:DataProto").from_dict(
        tensors={key: whole.batch[key][:, :PROMPT] for key in ("input_ids", "attention_mask", "position_ids")},
        meta_info={"eos_token_id": 1, "pad_token_id": 0, **meta},
    )
    torch.manual_seed(708)
    with autocast_counterpart(side, "hf-rollout-autocast-dtype", dtype):
        return outcome(made.generate_sequences, prompts), made.module.training


# Sharding


def _wrap(layers: Any) -> dict[str, Any]:
    return {"wrap_policy": {"transformer_layer_cls_to_wrap": layers}}


@family("fsdp_utils", "verl.utils.fsdp_utils")
def sharding(call: Call) -> Cases:
    """Yield cases of wrapping, loading and clipping with FSDP2."""
    yield "apply, load, clip", call(_shard, call)
    yield "wrap policy", lambda: _shard(call, **_wrap("Qwen2MLP"))
    yield "prefetch", lambda: _shard(call, **_wrap(["Qwen2MLP"]), forward_prefetch=True)
    yield "tied", lambda: _shard(call, tied=True, **_wrap(["Qwen2MLP"]))
    yield "clip/loose", lambda: _clip_weights(call, 0.5, max_norm=1e6)
    yield "clip/other norm", lambda: _clip_weights(call, 0.5, max_norm=0.1, norm_type=1.0)
    yield "optimizer's state moves", lambda: _move(call)
    yield "version", lambda: call.get("fsdp_version")(inputs.model())


def _clip_weights(call: Call, gradient: float, **options: Any) -> Any:
    weights = [torch.nn.Parameter(torch.ones(count)) for count in (3, 2, 1)]
    weights[0].grad, weights[1].grad = torch.full((3,), gradient), torch.tensor([0.25, -2.0])
    clip = call.get("fsdp2_clip_grad_norm_")
    found = clip(iter(weights), **options), [weight.grad for weight in weights]
    return found, clip(weights[0], max_norm=1.0), weights[0].grad


def _move(call: Call) -> Any:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight])
    load, offload = call.get("load_fsdp_optimizer"), call.get("offload_fsdp_optimizer")
    before = [outcome(load, optimizer, "meta"), outcome(offload, optimizer)]
    weight.grad = torch.ones(3)
    optimizer.step()
    offload(optimizer)
    devices = [str(value.device) for value in optimizer.state[weight].values()]
    load(optimizer, "meta")
    return before, devices, [str(value.device) for value in optimizer.state[weight].values()]


def _shard(call: Call, *, tied: bool = False, **config: Any) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    process_group()
    mesh, module = init_device_mesh("cpu", (1,)), inputs.model(tie_word_embeddings=tied)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    call.get("apply_fsdp2")(module, {"mesh": mesh, "reshard_after_forward": True}, config)
    call.get("fsdp2_load_full_state_dict")(module, state, mesh, None)
    parts = {name: part for name, part in module.named_modules() if "FSDP" in type(part).__name__}
    sharded = [(name, len(part._get_fsdp_state()._states_to_forward_prefetch)) for name, part in sorted(parts.items())]
    module(input_ids=tokens(call.side).batch["input_ids"]).logits.square().mean().backward()
    norm = call.get("fsdp2_clip_grad_norm_")(module.parameters(), max_norm=0.1)
    gradients = {
        name: parameter.grad.full_tensor()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
    return sharded, getattr(norm, "full_tensor", lambda: norm)(), gradients
