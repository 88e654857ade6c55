# mypy: disable-error-code="misc"
"""Cases of advantage estimators, KL and value loss."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch

from . import inputs
from .cases import Thunk, family, outcome, with_gradient
from .sides import Side

CORE = "verl.trainer.ppo.core_algos"
AGG_MODES = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "no-such-mode")
VARIANTS = (
    "outcome",
    "dense",
    "singletons",
    "pairs",
    "equal",
    "nothing earned",
    "not normalised",
    "holes",
    "empty row",
    "empty row of a pair",
    "float64",
    "weights",
    "components",
    "weighted components",
    "by default",
)
# What a pass knows of its batch: sizes of all, of none but the number of processes, and a scale of the loss's own.
KNOWN: tuple[dict[str, Any], ...] = (
    {"dp_size": 2, "batch_num_tokens": 61, "global_batch_size": 17},
    {"dp_size": 2},
    {"dp_size": 1, "loss_scale_factor": 11},
)
# What of the batch an estimator may be told, and a configuration may name.
COMPONENTS = {"gdpo_reward_keys": ["a", "b"]}
PENALTIES = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "k1+", "kl+", "k3+", "low_var_kl+", "full", "none")


def estimators(side: Side) -> dict[Any, Any]:
    """Return the estimators by name; 0.4.0 has no registry, and they go by the names of their functions."""
    core = side.module(CORE)
    registry: dict[Any, Any] | None = getattr(core, "ADV_ESTIMATOR_REGISTRY", None)
    if registry is not None:
        return registry
    return {name: getattr(core, name) for name in dir(core) if name.startswith("compute_") and "advantage" in name}


@family("core_algos.advantage", CORE)
def advantages(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of every estimator, on outcome and on dense rewards."""
    registry = estimators(side)
    for name in sorted(registry, key=str):
        label = str(getattr(name, "value", name))
        for variant in VARIANTS:
            yield f"{label}/{variant}", lambda name=name, variant=variant: _advantage(side, name, variant)


def _advantage(side: Side, name: Any, variant: str) -> Any:
    mask = inputs.response_mask(holes=variant == "holes", empty=variant.startswith("empty row"))
    rewards = inputs.rewards(dense=variant in ("dense", "holes", "weights"), mask=mask)
    if variant == "equal":
        rewards = torch.ones_like(rewards) * mask
    normalised = variant != "not normalised"
    grouped = {"singletons": "singletons", "pairs": "pairs", "empty row of a pair": "pairs"}
    settings: dict[str, Any] = {"gamma": 0.97, "lam": 0.9, "norm_adv_by_std_in_grpo": normalised}
    available = {
        "token_level_rewards": rewards.double() if variant == "float64" else rewards * (variant != "nothing earned"),
        "response_mask": mask,
        "index": inputs.groups(grouped.get(variant, "fours")),
        "values": inputs.normal(inputs.BATCH, inputs.LENGTH, seed=12),
        "reward_baselines": inputs.normal(inputs.BATCH, seed=13),
        "old_log_probs": inputs.log_probs(14),
        "sum_pi_squared": inputs.log_probs(15).exp(),
        **settings,
    }
    if variant == "weights":
        available |= {"rollout_is_weights": inputs.log_probs(16).exp(), "handle_zero_tail": False, "epsilon": 0.1}
    if "components" in variant:
        settings |= {**COMPONENTS, **({"gdpo_reward_weights": [0.25, 2.0]} if variant[0] == "w" else {})}
        prompts = torch.ones(inputs.BATCH, inputs.PROMPT, dtype=torch.long)
        available["batch"] = {"prompts": prompts, "attention_mask": torch.cat([prompts, mask], dim=1)}
        scores = {name: inputs.normal(inputs.BATCH, seed=seed).numpy() for name, seed in (("a", 17), ("b", 18))}
        available["non_tensor_batch"] = scores
    available["config"] = inputs.config(**settings)
    function = estimators(side)[name]
    before = available["token_level_rewards"].clone()
    result = outcome(inputs.call, function, available, by_default=variant == "by default")
    return result, torch.equal(before, available["token_level_rewards"])


@family("core_algos.registries", CORE)
def registries(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of looking up and adding estimators and losses."""
    core = side.module(CORE)
    if not hasattr(core, "ADV_ESTIMATOR_REGISTRY"):
        return
    yield "estimators", lambda: sorted(str(getattr(name, "value", name)) for name in core.ADV_ESTIMATOR_REGISTRY)
    yield "unknown estimator", lambda: outcome(side.get(f"{CORE}:get_adv_estimator_fn"), "vextract-none")
    yield "unknown loss", lambda: type(outcome(side.get(f"{CORE}:get_policy_loss_fn"), "vextract-none")).__name__
    yield "enum", lambda: [(item.name, item.value) for item in side.get(f"{CORE}:AdvantageEstimator")]

    def register() -> Any:
        def mine(**kwargs: Any) -> int:
            return 7

        def other(**kwargs: Any) -> int:
            return 8

        add = side.get(f"{CORE}:register_adv_est")
        kept = [add("vextract-mine")(mine) is mine for _ in range(2)]
        found = [side.get(f"{CORE}:get_adv_estimator_fn")("vextract-mine")() for _ in range(2)]
        clash = type(outcome(add("vextract-mine"), other)).__name__
        del core.ADV_ESTIMATOR_REGISTRY["vextract-mine"]
        kept.append(side.get(f"{CORE}:register_policy_loss")("vextract-mine")(other) is other)
        found.append(side.get(f"{CORE}:get_policy_loss_fn")("vextract-mine")())
        del core.POLICY_LOSS_REGISTRY["vextract-mine"]
        return found, clash, kept

    yield "registering", register


@family("core_algos.agg_loss", CORE)
def aggregation(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of every mode, also with an empty row and with half precision."""
    function = side.get(f"{CORE}:agg_loss")
    loss = inputs.normal(inputs.BATCH, inputs.LENGTH, seed=41)
    for mode in AGG_MODES:
        yield mode, lambda mode=mode: outcome(function, loss, inputs.response_mask(), mode)
        yield f"{mode}/empty row", lambda mode=mode: outcome(function, loss, inputs.response_mask(empty=True), mode)
        yield f"{mode}/bf16", lambda mode=mode: outcome(function, loss.bfloat16(), inputs.response_mask(), mode)
        yield f"{mode}/bool", lambda mode=mode: outcome(function, loss, inputs.response_mask(holes=True).bool(), mode)
        yield f"{mode}/nothing", lambda mode=mode: outcome(function, loss, torch.zeros_like(loss), mode)
        for known in KNOWN:
            yield (
                f"{mode}/{'+'.join(known)}",
                lambda mode=mode, known=known: outcome(function, loss, inputs.response_mask(empty=True), mode, **known),
            )


@family("core_algos.kl_penalty", CORE)
def penalties(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of every estimator of the KL divergence, with its gradient."""
    function = side.get(f"{CORE}:kl_penalty")
    for name in PENALTIES:
        for scale in (0.0, 0.3, 30.0):

            def run(name: str = name, scale: float = scale) -> Any:
                new = inputs.log_probs(51).requires_grad_()
                reference = inputs.log_probs(51) + inputs.normal(inputs.BATCH, inputs.LENGTH, seed=52, scale=scale)
                result = outcome(function, new, reference, name)
                if isinstance(result, Exception):
                    return result
                result.sum().backward()
                return result, new.grad

            yield f"{name}/{scale}", run


@family("core_algos.kl_controller", CORE)
def controllers(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of both controllers, over several updates."""
    make = side.get(f"{CORE}:get_kl_controller")
    for settings in (
        {"type": "fixed", "kl_coef": 0.02},
        {"type": "adaptive", "kl_coef": 0.02, "target_kl": 0.1, "horizon": 1000},
        {"type": "adaptive", "kl_coef": 0.02, "target_kl": 0.1, "horizon": 0},
        {"type": "other"},
    ):

        def run(settings: dict[str, Any] = settings) -> Any:
            controller = outcome(make, inputs.config(**settings))
            if isinstance(controller, Exception):
                return controller
            values = []
            for kl in (0.05, 0.1, 0.4, -0.3, 0.11):
                controller.update(current_kl=kl, n_steps=64)
                values.append(float(controller.value))
            return values

        yield "/".join(str(value) for value in settings.values()), run


@family("core_algos.losses", CORE)
def other_losses(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Value loss, entropy loss, rewards with KL, and the reweighting of PF-PPO."""
    values, returns = (inputs.normal(inputs.BATCH, inputs.LENGTH, seed=seed) for seed in (61, 62))
    for mode in AGG_MODES:

        def value_loss(mode: str = mode) -> Any:
            predicted = (values + inputs.normal(inputs.BATCH, inputs.LENGTH, seed=63, scale=0.4)).requires_grad_()
            available = {
                "vpreds": predicted,
                "returns": returns,
                "values": values,
                "response_mask": inputs.response_mask(),
                "cliprange_value": 0.3,
                "loss_agg_mode": mode,
            }
            return with_gradient(outcome(inputs.call, side.get(f"{CORE}:compute_value_loss"), available), predicted)

        def entropy_loss(mode: str = mode) -> Any:
            logits = inputs.normal(inputs.BATCH, inputs.LENGTH, 17, seed=64).requires_grad_()
            function = side.get(f"{CORE}:compute_entropy_loss")
            return with_gradient(outcome(function, logits, inputs.response_mask(), mode), logits)

        yield f"compute_value_loss/{mode}", value_loss
        yield f"compute_entropy_loss/{mode}", entropy_loss

    def value_on_edges() -> Any:
        # Sums of powers of two: what is predicted lies exactly on the borders of the range, and beside them.
        step = torch.arange(inputs.BATCH * inputs.LENGTH).reshape(inputs.BATCH, inputs.LENGTH) % 5 - 2
        predicted = (step * 0.25).requires_grad_()
        available = {
            "vpreds": predicted,
            "returns": step.roll(1, dims=1) * 0.25,
            "values": torch.zeros(inputs.BATCH, inputs.LENGTH),
            "response_mask": inputs.response_mask(empty=True, holes=True),
            "cliprange_value": 0.25,
        }
        return with_gradient(outcome(inputs.call, side.get(f"{CORE}:compute_value_loss"), available), predicted)

    yield "compute_value_loss/edges", value_on_edges
    yield (
        "compute_rewards",
        lambda: side.get(f"{CORE}:compute_rewards")(values, inputs.log_probs(65), inputs.log_probs(66), 0.3),
    )
    yield "compute_pf_ppo_reweight_data/by default", lambda: _reweight(side)
    for method in ("pow", "max_min", "max_random", "none"):
        yield f"compute_pf_ppo_reweight_data/{method}", lambda method=method: _reweight(side, method)


def _reweight(side: Side, method: str = "") -> Any:
    data = side.get("verl.protocol:DataProto").from_dict(
        tensors={"token_level_scores": inputs.normal(inputs.BATCH, inputs.LENGTH, seed=67)},
        non_tensors={"uid": np.array(list("abcdefgh"), dtype=object)},
        meta_info={"rows": list(range(inputs.BATCH)), "other": 3},
    )
    chosen = (method, 2.0) if method else ()
    return outcome(side.get(f"{CORE}:compute_pf_ppo_reweight_data"), data, *chosen)


def _resolved(resolve: Any, forced: str) -> Any:
    with mock.patch.dict(os.environ, {"VERL_FORCE_DEVICE": forced}):
        return [outcome(resolve, explicit) for explicit in (None, "cpu", "meta")]


@family("groupwise", "verl.utils.groupwise")
def grouped(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Compute mean and deviation per group, for every way to name a group."""
    module = "verl.utils.groupwise"
    scores = inputs.normal(8, seed=73)
    names: dict[str, Any] = {
        "strings": inputs.groups(),
        "ints": torch.tensor([3, 1, 1, 3, 5, 5, 1, 3]),
        "list": [3, 1, 1, 3, 5, 5, 1, 3],
        "floats": torch.tensor([1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 1.0]),
        "fractions": torch.tensor([0.5, 2.0, 2.0, 0.5]),
        "large fractions": np.array([1e5 + 0.5, 2e5]),
        "large fractions, tensor": torch.tensor([1e5 + 0.5, 2e5]),
        "nearly whole": torch.tensor([1.0 + 5e-7, 2.0], dtype=torch.float64),
        "flags": torch.tensor([True, False, True]),
        "array of floats": np.array([2.0, 7.0, 2.0]),
        "array of fractions": np.array([0.25, 7.0, 0.25]),
        "digits": ["3", "1", "3"],
        "mixed": ["a", 1, None, "a"],
        "two dimensions": np.array([[3, 1], [1, 3]]),
    }
    for label, index in names.items():
        yield f"index/{label}", lambda index=index: outcome(side.get(f"{module}:as_torch_index"), index)

    def elsewhere() -> Any:
        found = [outcome(side.get(f"{module}:as_torch_index"), index, device="meta") for index in names.values()]
        statistics = outcome(side.get(f"{module}:group_mean_std"), scores, names["ints"].clamp(max=1), device="meta")
        return [str(getattr(index, "device", index)) for index in found], type(statistics).__name__

    yield "index/elsewhere", elsewhere
    for forced in ("cpu", "meta", ""):
        yield f"device/{forced}", lambda forced=forced: _resolved(side.get(f"{module}:_resolve_device"), forced)
    for label, members in (("fours", [0, 1, 1, 0, 2, 1, 0, 0]), ("pairs", [0, 1, 2, 1, 3, 0, 2, 3]), ("gap", [3] * 8)):
        for device in ("cpu", None):

            def run(members: list[int] = members, device: str | None = device) -> Any:
                function, before = side.get(f"{module}:group_mean_std"), scores.clone()
                return outcome(function, scores, torch.tensor(members), device=device), torch.equal(before, scores)

            yield f"mean and std/{label}/{device}", run
    flat = torch.tensor([0, 0, 1])
    small = torch.tensor([0, 2, 2, 0, 1, 1, 2, 0], dtype=torch.int32)
    yield "mean and std/small integers", lambda: outcome(side.get(f"{module}:group_mean_std"), scores, small)
    yield "mean and std/eps", lambda: outcome(side.get(f"{module}:group_mean_std"), scores[:3], flat, eps=0.5)
    yield "mean and std/nobody", lambda: outcome(side.get(f"{module}:group_mean_std"), scores[:0], flat[:0])
