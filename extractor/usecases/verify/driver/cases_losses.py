# mypy: disable-error-code="misc"
"""Cases of policy losses with gradients, and of rollout correction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from . import inputs
from .cases import Thunk, family, outcome, with_gradient
from .cases_algorithms import AGG_MODES, CORE
from .sides import NotVendored, Side

HELPER = "verl.trainer.ppo.rollout_corr_helper"
# What a process knows of the batch that its rows are a part of, in releases that ask for it.
SHARE = {"dp_size": 2, "batch_num_tokens": 61, "global_batch_size": 17, "loss_scale_factor": 11}

# How far the policies are apart, and what is at a border: advantages and differences of zero, tokens that are masked.
SITUATIONS = (
    "far",
    "weights",
    "edges",
    "double",
    "nobody gained",
    "no ranges",
    "nothing set",
    "first tokens",
    "by default",
)


@family("core_algos.policy_loss", CORE)
def policy_losses(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield every registered loss with its gradient, in every aggregation mode, near and far from the old policy."""
    registry = getattr(side.module(CORE), "POLICY_LOSS_REGISTRY", {})
    for name in sorted(registry):
        for mode in AGG_MODES[:-1]:
            yield f"{name}/{mode}", lambda name=name, mode=mode: _policy_loss(side, name, mode, "mapping")
            yield (
                f"{name}/{mode}/share of a batch",
                lambda name=name, mode=mode: _policy_loss(side, name, mode, "dataclass", shared=True),
            )
        for kind in ("mapping", "dataclass"):
            for situation in SITUATIONS:
                yield (
                    f"{name}/{situation}/{kind}",
                    lambda name=name, kind=kind, situation=situation: _policy_loss(
                        side, name, AGG_MODES[0], kind, situation
                    ),
                )


def _policy_loss(side: Side, name: str, mode: str, kind: str, situation: str = "near", *, shared: bool = False) -> Any:
    old = inputs.log_probs(21)
    scale = {"far": 30.0, "edges": 2.0}.get(situation, 0.3)
    apart = inputs.normal(inputs.BATCH, inputs.LENGTH, seed=22, scale=scale)
    if situation == "edges":
        apart[:, ::2] = 0
    new = (old + apart).requires_grad_()
    settings = inputs.actor_settings()
    settings["policy_loss"]["loss_mode"] = name
    if situation == "nothing set":
        unset = ("clip_cov_ratio", "clip_cov_lb", "clip_cov_ub", "kl_cov_ratio", "ppo_kl_coef")
        settings |= {"clip_ratio_low": None, "clip_ratio_high": None, "clip_ratio_c": 1.0}
        settings["policy_loss"] = {**settings["policy_loss"], **dict.fromkeys(unset)}
    if situation == "no ranges":
        settings |= {"clip_ratio_low": None, "clip_ratio_high": None}
    if situation == "nobody gained" and kind == "dataclass" and name == "sapo":
        settings["tau_pos"] = 0.0  # of gains alone: a token without any that took it would be no number
    if kind == "mapping":
        settings["policy_loss"]["rollout_correction"] = inputs.ROLLOUT_CORRECTION
        settings["global_batch_info"] = {}
    config = actor_dataclass(side, settings) if kind == "dataclass" else inputs.config(**settings)
    if shared and hasattr(config, "global_batch_info"):
        config.global_batch_info.update(SHARE)
    weighted = situation == "weights"
    mask = inputs.response_mask(empty=True, holes=situation == "edges")
    available = {
        "old_log_prob": old,
        "log_prob": new,
        "advantages": _advantages(situation),
        "response_mask": mask * (torch.arange(inputs.LENGTH) < 1) if situation == "first tokens" else mask,
        "loss_agg_mode": mode,
        "config": config,
        "rollout_is_weights": _normal(24).exp() if weighted else None,
        "rollout_log_probs": inputs.log_probs(25) if weighted else None,
        "cliprange": 0.2,
    }
    loss = side.get(f"{CORE}:get_policy_loss_fn")(name)
    with mean_over_the_batch(side, name, config):
        result = outcome(inputs.call, loss, available, by_default=situation == "by default")
    return with_gradient(result, new)


def _advantages(situation: str) -> torch.Tensor:
    if situation == "nobody gained":
        return -inputs.edges(23).abs()
    found = inputs.edges(23) if situation == "edges" else _normal(23)
    return found.double() if situation == "double" else found


def _normal(seed: int) -> torch.Tensor:
    return inputs.normal(inputs.BATCH, inputs.LENGTH, seed=seed)


def mean_over_the_batch(side: Side, name: str, config: Any) -> contextlib.AbstractContextManager[object]:
    """Give upstream's side what a named fix gives the project's: GMPO's mean over the batch in place of the pass."""
    if not side.upstream or name != "geo_mean" or "geo-mean-over-the-batch" not in side.fixes:
        return contextlib.nullcontext()
    mean, batch = torch.mean, getattr(config, "global_batch_info", {})

    def met(losses: torch.Tensor) -> torch.Tensor:
        return losses.sum() / batch["global_batch_size"] * batch["dp_size"] if batch else mean(losses)

    return mock.patch.object(torch, "mean", met)


def actor_dataclass(side: Side, settings: dict[str, Any]) -> Any:
    """Return the same settings as upstream's dataclass, where the release has one."""
    cls = side.get("verl.workers.config.actor:FSDPActorConfig")
    kind = side.get("verl.workers.config.actor:PolicyLossConfig")
    more = {"dro_beta": 0.3} if "dro_beta" in kind.__dataclass_fields__ else {}
    taus = {"tau_pos": 0.9, "tau_neg": 1.2} if "tau_pos" in cls.__dataclass_fields__ else {}
    return cls(**{**taus, **settings, "policy_loss": kind(**{**more, **settings["policy_loss"]})})


@family("core_algos.compute_policy_loss", CORE)
def clipped_loss(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield the losses that are no part of the registry."""
    function = side.get(f"{CORE}:compute_policy_loss")
    old, mask = inputs.log_probs(31), inputs.response_mask()
    advantage = inputs.normal(inputs.BATCH, inputs.LENGTH, seed=33)

    def on_edges() -> Any:
        apart = inputs.normal(inputs.BATCH, inputs.LENGTH, seed=32, scale=0.5)
        apart[:, ::2] = 0
        new = (old + apart).requires_grad_()
        return with_gradient(outcome(function, old, new, inputs.edges(33), mask, cliprange=0.2), new)

    yield "edges", on_edges
    for mode in AGG_MODES:
        for label, clip in (
            ("one range", {"cliprange": 0.2}),
            ("two ranges", {"cliprange": 0.2, "cliprange_low": 0.1, "cliprange_high": 0.3, "clip_ratio_c": 1.5}),
            ("bad ratio", {"cliprange": 0.2, "clip_ratio_c": 0.5}),
            ("ratio of one", {"cliprange": 0.2, "clip_ratio_c": 1.0}),
        ):

            def run(mode: str = mode, clip: dict[str, float] = clip) -> Any:
                new = (old + inputs.normal(inputs.BATCH, inputs.LENGTH, seed=32, scale=0.5)).requires_grad_()
                return with_gradient(outcome(function, old, new, advantage, mask, loss_agg_mode=mode, **clip), new)

            yield f"{mode}/{label}", run


@family("core_algos.rollout_correction", CORE)
def corrected_loss(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield the loss with rollout correction, called directly."""
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
                return with_gradient(result, new)

            yield f"{sampling}/{rejection}", run


def rejections(side: Side) -> tuple[str, ...]:
    """Return the ways to reject tokens and responses by name; since 0.7.1 the module lists them."""
    try:
        helper = side.module(HELPER)
    except NotVendored:
        return ()
    return tuple(sorted(getattr(helper, "SUPPORTED_ROLLOUT_RS_OPTIONS", ("token", "sequence", "geometric"))))


@family("core_algos.bypass", CORE)
def bypassing_loss(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield the loss that takes the rollout's log-probabilities as the old ones, clipped and by REINFORCE."""
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
                    return with_gradient(result, new)

                yield f"{kind}/{sampling}/{rejection}", run


@family("rollout_corr_helper", HELPER)
def rollout_correction(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of importance weights and rejection masks between two policies."""
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
