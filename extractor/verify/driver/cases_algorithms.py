# mypy: disable-error-code="misc"
"""Advantage estimators, policy losses, KL, value loss: the numbers that training is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from . import inputs
from .cases import Thunk, family, outcome
from .sides import NotVendored, Side

CORE = "verl.trainer.ppo.core_algos"
HELPER = "verl.trainer.ppo.rollout_corr_helper"
AGG_MODES = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "no-such-mode")
PENALTIES = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "k1+", "kl+", "k3+", "low_var_kl+", "full", "none")


def estimators(side: Side) -> dict[Any, Any]:
    """The estimators by name; 0.4.0 has no registry, and they go by the names of their functions."""
    core = side.module(CORE)
    registry: dict[Any, Any] | None = getattr(core, "ADV_ESTIMATOR_REGISTRY", None)
    if registry is not None:
        return registry
    return {name: getattr(core, name) for name in dir(core) if name.startswith("compute_") and "advantage" in name}


@family("core_algos.advantage", CORE)
def advantages(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Every estimator, on outcome and on dense rewards."""
    registry = estimators(side)
    for name in sorted(registry, key=str):
        label = str(getattr(name, "value", name))
        for variant in ("outcome", "dense", "singletons", "equal", "not normalised", "holes", "float64"):
            yield f"{label}/{variant}", lambda name=name, variant=variant: _advantage(side, name, variant)


def _advantage(side: Side, name: Any, variant: str) -> Any:
    mask = inputs.response_mask(holes=variant == "holes")
    rewards = inputs.rewards(dense=variant in ("dense", "holes"), mask=mask)
    if variant == "equal":
        rewards = torch.ones_like(rewards) * mask
    normalised = variant != "not normalised"
    available = {
        "token_level_rewards": rewards.double() if variant == "float64" else rewards,
        "response_mask": mask,
        "index": inputs.groups(singletons=variant == "singletons"),
        "values": inputs.normal(inputs.BATCH, inputs.LENGTH, seed=12),
        "reward_baselines": inputs.normal(inputs.BATCH, seed=13),
        "old_log_probs": inputs.log_probs(14),
        "sum_pi_squared": inputs.log_probs(15).exp(),
        "gamma": 0.97,
        "lam": 0.9,
        "norm_adv_by_std_in_grpo": normalised,
        "config": inputs.config(gamma=0.97, lam=0.9, norm_adv_by_std_in_grpo=normalised),
    }
    function = estimators(side)[name]
    return outcome(inputs.call, function, available)


# What a process knows of the batch that its rows are a part of, in releases that ask for it.
SHARE = {"dp_size": 2, "batch_num_tokens": 61, "global_batch_size": 17, "loss_scale_factor": 11}


@family("core_algos.registries", CORE)
def registries(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Looking up and adding estimators and losses."""
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
        add("vextract-mine")(mine)
        add("vextract-mine")(mine)
        found = [side.get(f"{CORE}:get_adv_estimator_fn")("vextract-mine")() for _ in range(2)]
        clash = type(outcome(add("vextract-mine"), other)).__name__
        del core.ADV_ESTIMATOR_REGISTRY["vextract-mine"]
        side.get(f"{CORE}:register_policy_loss")("vextract-mine")(other)
        found.append(side.get(f"{CORE}:get_policy_loss_fn")("vextract-mine")())
        del core.POLICY_LOSS_REGISTRY["vextract-mine"]
        return found, clash

    yield "registering", register


@family("core_algos.policy_loss", CORE)
def policy_losses(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Every registered loss with its gradient, in every aggregation mode, near and far from the old policy."""
    registry = getattr(side.module(CORE), "POLICY_LOSS_REGISTRY", {})
    for name in sorted(registry):
        for mode in AGG_MODES[:-1]:
            yield f"{name}/{mode}", lambda name=name, mode=mode: _policy_loss(side, name, mode, "mapping", far=False)
            yield (
                f"{name}/{mode}/share of a batch",
                lambda name=name, mode=mode: _policy_loss(side, name, mode, "dataclass", far=False, shared=True),
            )
        for kind in ("mapping", "dataclass"):
            for label, far, weights in (("far", True, False), ("weights", False, True)):
                yield (
                    f"{name}/{label}/{kind}",
                    lambda name=name, kind=kind, far=far, weights=weights: _policy_loss(
                        side, name, AGG_MODES[0], kind, far=far, weights=weights
                    ),
                )


def _policy_loss(
    side: Side, name: str, mode: str, kind: str, *, far: bool, weights: bool = False, shared: bool = False
) -> Any:
    old = inputs.log_probs(21)
    new = (old + inputs.normal(inputs.BATCH, inputs.LENGTH, seed=22, scale=30.0 if far else 0.3)).requires_grad_()
    settings = inputs.actor_settings()
    settings["policy_loss"]["loss_mode"] = name
    if kind == "mapping":
        settings["policy_loss"]["rollout_correction"] = inputs.ROLLOUT_CORRECTION
        settings["global_batch_info"] = {}
    config = actor_dataclass(side, settings) if kind == "dataclass" else inputs.config(**settings)
    if shared and hasattr(config, "global_batch_info"):
        config.global_batch_info.update(SHARE)
    available = {
        "old_log_prob": old,
        "log_prob": new,
        "advantages": inputs.normal(inputs.BATCH, inputs.LENGTH, seed=23),
        "response_mask": inputs.response_mask(empty=True),
        "loss_agg_mode": mode,
        "config": config,
        "rollout_is_weights": inputs.normal(inputs.BATCH, inputs.LENGTH, seed=24).exp() if weights else None,
        "rollout_log_probs": inputs.log_probs(25) if weights else None,
        "cliprange": 0.2,
    }
    result = outcome(inputs.call, side.get(f"{CORE}:get_policy_loss_fn")(name), available)
    return _with_gradient(result, new)


def actor_dataclass(side: Side, settings: dict[str, Any]) -> Any:
    """The same settings as upstream's dataclass, where the release has one."""
    cls = side.get("verl.workers.config.actor:FSDPActorConfig")
    policy = side.get("verl.workers.config.actor:PolicyLossConfig")(**settings["policy_loss"])
    return cls(**{**settings, "policy_loss": policy})


def _with_gradient(result: Any, leaf: torch.Tensor) -> Any:
    if isinstance(result, Exception):
        return result
    loss = result[0] if isinstance(result, tuple) else result
    loss.backward()
    return result, leaf.grad


@family("core_algos.compute_policy_loss", CORE)
def clipped_loss(side: Side) -> Iterator[tuple[str, Thunk]]:
    """The losses that are no part of the registry."""
    function = side.get(f"{CORE}:compute_policy_loss")
    old, mask = inputs.log_probs(31), inputs.response_mask()
    advantage = inputs.normal(inputs.BATCH, inputs.LENGTH, seed=33)
    for mode in AGG_MODES:
        for label, clip in (
            ("one range", {"cliprange": 0.2}),
            ("two ranges", {"cliprange": 0.2, "cliprange_low": 0.1, "cliprange_high": 0.3, "clip_ratio_c": 1.5}),
            ("bad ratio", {"cliprange": 0.2, "clip_ratio_c": 0.5}),
        ):

            def run(mode: str = mode, clip: dict[str, float] = clip) -> Any:
                new = (old + inputs.normal(inputs.BATCH, inputs.LENGTH, seed=32, scale=0.5)).requires_grad_()
                return _with_gradient(outcome(function, old, new, advantage, mask, loss_agg_mode=mode, **clip), new)

            yield f"{mode}/{label}", run


@family("core_algos.rollout_correction", CORE)
def corrected_loss(side: Side) -> Iterator[tuple[str, Thunk]]:
    """The loss with rollout correction, called directly."""
    function = side.get(f"{CORE}:compute_policy_loss_with_rollout_correction")
    for sampling in (None, "token", "sequence"):
        for rejection in (None, "token", "sequence", "geometric"):

            def run(sampling: str | None = sampling, rejection: str | None = rejection) -> Any:
                new = inputs.log_probs(35).requires_grad_()
                result = outcome(
                    function,
                    inputs.log_probs(36),
                    new,
                    inputs.normal(inputs.BATCH, inputs.LENGTH, seed=37),
                    inputs.response_mask(),
                    rollout_is=sampling,
                    rollout_rs=rejection,
                    rollout_rs_threshold=1.5,
                )
                return _with_gradient(result, new)

            yield f"{sampling}/{rejection}", run


def rejections(side: Side) -> tuple[str, ...]:
    """The ways to reject tokens and responses by name; since 0.7.1 the module lists them."""
    try:
        helper = side.module(HELPER)
    except NotVendored:
        return ()
    return tuple(sorted(getattr(helper, "SUPPORTED_ROLLOUT_RS_OPTIONS", ("token", "sequence", "geometric"))))


@family("core_algos.bypass", CORE)
def bypassing_loss(side: Side) -> Iterator[tuple[str, Thunk]]:
    """The loss that takes the rollout's log-probabilities as the old ones, clipped and by REINFORCE."""
    for kind in ("ppo_clip", "reinforce", "none"):
        for sampling in (None, "token", "sequence"):
            for rejection in (None, *rejections(side)):

                def run(kind: str = kind, sampling: str | None = sampling, rejection: str | None = rejection) -> Any:
                    new = inputs.log_probs(35).requires_grad_()
                    settings = inputs.actor_settings()
                    settings["global_batch_info"] = {}
                    settings["policy_loss"]["rollout_correction"] = {
                        "loss_type": kind,
                        "rollout_is": sampling,
                        "rollout_rs": rejection,
                        "rollout_rs_threshold": 1.5,
                    }
                    result = outcome(
                        side.get(f"{CORE}:compute_policy_loss_bypass_mode"),
                        inputs.log_probs(36),
                        new,
                        inputs.normal(inputs.BATCH, inputs.LENGTH, seed=37),
                        inputs.response_mask(),
                        config=inputs.config(**settings),
                    )
                    return _with_gradient(result, new)

                yield f"{kind}/{sampling}/{rejection}", run


@family("core_algos.agg_loss", CORE)
def aggregation(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Every mode, also with an empty row and with half precision."""
    function = side.get(f"{CORE}:agg_loss")
    loss = inputs.normal(inputs.BATCH, inputs.LENGTH, seed=41)
    for mode in AGG_MODES:
        yield mode, lambda mode=mode: outcome(function, loss, inputs.response_mask(), mode)
        yield f"{mode}/empty row", lambda mode=mode: outcome(function, loss, inputs.response_mask(empty=True), mode)
        yield f"{mode}/bf16", lambda mode=mode: outcome(function, loss.bfloat16(), inputs.response_mask(), mode)


@family("core_algos.kl_penalty", CORE)
def penalties(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Every estimator of the KL divergence, with its gradient."""
    function = side.get(f"{CORE}:kl_penalty")
    for name in PENALTIES:
        for scale in (0.3, 30.0):

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
    """Both controllers, over several updates."""
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
            return _with_gradient(outcome(inputs.call, side.get(f"{CORE}:compute_value_loss"), available), predicted)

        def entropy_loss(mode: str = mode) -> Any:
            logits = inputs.normal(inputs.BATCH, inputs.LENGTH, 17, seed=64).requires_grad_()
            function = side.get(f"{CORE}:compute_entropy_loss")
            return _with_gradient(outcome(function, logits, inputs.response_mask(), mode), logits)

        yield f"compute_value_loss/{mode}", value_loss
        yield f"compute_entropy_loss/{mode}", entropy_loss
    yield (
        "compute_rewards",
        lambda: side.get(f"{CORE}:compute_rewards")(values, inputs.log_probs(65), inputs.log_probs(66), 0.3),
    )
    for method in ("pow", "max_min", "max_random", "none"):
        yield f"compute_pf_ppo_reweight_data/{method}", lambda method=method: _reweight(side, method)


def _reweight(side: Side, method: str) -> Any:
    import numpy as np

    data = side.get("verl.protocol:DataProto").from_dict(
        tensors={"token_level_scores": inputs.normal(inputs.BATCH, inputs.LENGTH, seed=67)},
        non_tensors={"uid": np.array(list("abcdefgh"), dtype=object)},
        meta_info={"rows": list(range(inputs.BATCH)), "other": 3},
    )
    return outcome(side.get(f"{CORE}:compute_pf_ppo_reweight_data"), data, method, 2.0)


@family("rollout_corr_helper", HELPER)
def rollout_correction(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Importance weights and rejection masks between two policies."""
    old, rollout = inputs.log_probs(71), inputs.log_probs(71) + inputs.normal(inputs.BATCH, inputs.LENGTH, seed=72)
    mask = inputs.response_mask()
    for sampling in (None, "token", "sequence", "none"):
        for rejection in (None, *rejections(side), "none"):
            for normalised in (False, True):

                def run(
                    sampling: str | None = sampling, rejection: str | None = rejection, normalised: bool = normalised
                ) -> Any:
                    available = {
                        "old_log_prob": old,
                        "rollout_log_prob": rollout,
                        "response_mask": mask,
                        "rollout_is": sampling,
                        "rollout_is_threshold": 1.5,
                        "rollout_rs": rejection,
                        "rollout_rs_threshold": 1.3,
                        "rollout_token_veto_threshold": 0.05 if normalised else None,
                        "rollout_is_batch_normalize": normalised,
                    }
                    return outcome(
                        inputs.call, side.get(f"{HELPER}:compute_rollout_correction_and_rejection_mask"), available
                    )

                yield f"weights/{sampling}/{rejection}/{normalised}", run
    yield "off-policy", lambda: side.get(f"{HELPER}:compute_offpolicy_metrics")(old, rollout, mask)
    yield (
        "from log-probs",
        lambda: side.get(f"{HELPER}:compute_rollout_corr_metrics_from_logprobs")(old, rollout, mask),
    )


@family("groupwise", "verl.utils.groupwise")
def grouped(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Mean and deviation per group, for every way to name a group."""
    module = "verl.utils.groupwise"
    scores = inputs.normal(8, seed=73)
    names: dict[str, Any] = {
        "strings": inputs.groups(),
        "ints": torch.tensor([3, 1, 1, 3, 5, 5, 1, 3]),
        "list": [3, 1, 1, 3, 5, 5, 1, 3],
        "floats": torch.tensor([1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 1.0]),
    }
    for label, index in names.items():
        yield f"index/{label}", lambda index=index: outcome(side.get(f"{module}:as_torch_index"), index)
    group = torch.tensor([0, 1, 1, 0, 2, 1, 0, 0])
    for device in ("cpu", None):
        yield (
            f"mean and std/{device}",
            lambda device=device: outcome(side.get(f"{module}:group_mean_std"), scores, group, device=device),
        )
