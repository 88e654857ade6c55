"""Cases of policy losses with gradients, and of rollout correction."""

import contextlib
from itertools import product
from typing import Any
from unittest import mock

import torch

from . import inputs
from .cases import Call, Cases, family, outcome, with_gradient
from .cases_algorithms import AGG_MODES, CORE
from .sides import NotVendored, Side

HELPER = "verl.trainer.ppo.rollout_corr_helper"
# What a process knows of the batch that its rows are a part of, in releases that ask for it.
SHARE = {"dp_size": 2, "batch_num_tokens": 61, "global_batch_size": 17, "loss_scale_factor": 11}
# How far the policies are apart, and what is at a border: advantages and differences of zero, tokens that are masked.
SITUATIONS = (
    *("far", "weights", "edges", "double", "nobody gained", "no ranges", "far, no ranges", "nothing set"),
    *("first tokens", "by default"),
)
UNSET = ("clip_cov_ratio", "clip_cov_lb", "clip_cov_ub", "kl_cov_ratio", "ppo_kl_coef")


@family("core_algos.policy_loss", CORE)
def policy_losses(call: Call) -> Cases:
    """Yield cases of every policy loss, by mode and situation."""
    side = call.side
    for name in sorted(getattr(side.module(CORE), "POLICY_LOSS_REGISTRY", {})):
        for mode in AGG_MODES[:-1]:
            yield f"{name}/{mode}", lambda: _run_loss(side, name, mode, "mapping")
            yield f"{name}/{mode}/share of a batch", lambda: _run_loss(side, name, mode, "dataclass", shared=True)
        for kind, situation in product(("mapping", "dataclass"), SITUATIONS):
            yield f"{name}/{situation}/{kind}", lambda: _run_loss(side, name, AGG_MODES[0], kind, situation)


def _run_loss(side: Side, name: str, mode: str, kind: str, situation: str = "near", *, shared: bool = False) -> Any:
    old = inputs.log_probs(21)
    apart = inputs.draw_per_token(22, {"far": 30.0, "edges": 2.0, "far, no ranges": 2.0}.get(situation, 0.3))
    if situation == "edges":
        apart[:, ::2] = 0
    new = (old + apart).requires_grad_()
    config = _configure(side, name, kind, situation)
    if shared and hasattr(config, "global_batch_info"):
        config.global_batch_info.update(SHARE)
    weighted = situation == "weights"
    mask = inputs.response_mask(empty=True, holes=situation == "edges")
    gains = inputs.edges(23) if situation in ("edges", "nobody gained") else inputs.draw_per_token(23)
    available = {
        "old_log_prob": old,
        "log_prob": new,
        "advantages": {"nobody gained": -gains.abs(), "double": gains.double()}.get(situation, gains),
        "response_mask": mask * (torch.arange(inputs.LENGTH) < 1) if situation == "first tokens" else mask,
        "loss_agg_mode": mode,
        "config": config,
        "rollout_is_weights": inputs.draw_per_token(24).exp() if weighted else None,
        "rollout_log_probs": inputs.log_probs(25) if weighted else None,
        "cliprange": 0.2,
    }
    loss = side.get(f"{CORE}:get_policy_loss_fn")(name)
    with mean_over_the_batch(side, name, config):
        result = outcome(inputs.call, loss, available, by_default=situation == "by default")
    return with_gradient(result, new)


def _configure(side: Side, name: str, kind: str, situation: str) -> Any:
    settings = inputs.actor_settings()
    settings["policy_loss"]["loss_mode"] = name
    if situation in ("no ranges", "far, no ranges", "nothing set"):
        settings |= {"clip_ratio_low": None, "clip_ratio_high": None}
    if situation == "nothing set":
        settings |= {"clip_ratio_c": 1.0, "policy_loss": {**settings["policy_loss"], **dict.fromkeys(UNSET)}}
    if situation == "nobody gained" and kind == "dataclass" and name == "sapo":
        settings["tau_pos"] = 0.0  # of gains alone: a token without any that took it would be no number
    if kind == "dataclass":
        return actor_dataclass(side, settings)
    settings["policy_loss"]["rollout_correction"] = inputs.ROLLOUT_CORRECTION
    return inputs.config(**settings, global_batch_info={})


def mean_over_the_batch(side: Side, name: str, config: Any) -> contextlib.AbstractContextManager[object]:
    """Patch upstream's GMPO to average over the batch, as fixed."""
    if not side.upstream or name != "geo_mean" or "geo-mean-over-the-batch" not in side.fixes:
        return contextlib.nullcontext()
    mean, batch = torch.mean, getattr(config, "global_batch_info", {})

    def met(losses: torch.Tensor) -> torch.Tensor:
        return losses.sum() / batch["global_batch_size"] * batch["dp_size"] if batch else mean(losses)

    return mock.patch.object(torch, "mean", met)


def actor_dataclass(side: Side, settings: dict[str, Any]) -> Any:
    """Return the settings as upstream's actor dataclass."""
    cls = side.get("verl.workers.config.actor:FSDPActorConfig")
    kind = side.get("verl.workers.config.actor:PolicyLossConfig")
    more = {"dro_beta": 0.3} if "dro_beta" in kind.__dataclass_fields__ else {}
    taus = {"tau_pos": 0.9, "tau_neg": 1.2} if "tau_pos" in cls.__dataclass_fields__ else {}
    return cls(**{**taus, **settings, "policy_loss": kind(**{**more, **settings["policy_loss"]})})


def losses_config(side: Side, **changes: Any) -> Any:
    """Return the actor's section as upstream's dataclass."""
    settings = inputs.actor_settings(**changes)
    settings.pop("use_torch_compile", None)
    settings["fsdp_config"] = side.get("verl.workers.config.engine:FSDPEngineConfig")(strategy="fsdp2")
    return actor_dataclass(side, settings)


@family("core_algos.compute_policy_loss", CORE)
def clipped_loss(call: Call) -> Cases:
    """Yield the losses that are no part of the registry."""
    old, mask, function = inputs.log_probs(31), inputs.response_mask(), call.get("compute_policy_loss")

    def run(apart: torch.Tensor, advantage: torch.Tensor, **settings: Any) -> Any:
        new = (old + apart).requires_grad_()
        return with_gradient(outcome(function, old, new, advantage, mask, **settings), new)

    edges = inputs.draw_per_token(32, 0.5)
    edges[:, ::2] = 0
    yield "edges", lambda: run(edges, inputs.edges(33), cliprange=0.2)
    for mode in AGG_MODES:
        for label, clip in {
            "one range": {},
            "two ranges": {"cliprange_low": 0.1, "cliprange_high": 0.3, "clip_ratio_c": 1.5},
            "bad ratio": {"clip_ratio_c": 0.5},
            "ratio of one": {"clip_ratio_c": 1.0},
        }.items():
            settings = {"loss_agg_mode": mode, "cliprange": 0.2, **clip}
            yield f"{mode}/{label}", lambda: run(inputs.draw_per_token(32, 0.5), inputs.draw_per_token(33), **settings)


def _correct(call: Call, function: str, **settings: Any) -> Any:
    new, advantages = inputs.log_probs(35).requires_grad_(), inputs.draw_per_token(37)
    result = call(function, inputs.log_probs(36), new, advantages, inputs.response_mask(), **settings)()
    return with_gradient(result, new)


@family("core_algos.rollout_correction", CORE)
def corrected_loss(call: Call) -> Cases:
    """Yield the loss with rollout correction, called directly."""
    function = "compute_policy_loss_with_rollout_correction"
    call.get(function)
    for sampling, rejection in product((None, "token", "sequence"), (None, "token", "sequence", "geometric")):
        settings = {"rollout_is": sampling, "rollout_rs": rejection, "rollout_rs_threshold": 1.5}
        yield f"{sampling}/{rejection}", lambda: _correct(call, function, **settings)


def rejections(side: Side) -> tuple[str, ...]:
    """Return the names of rejection methods; none without the module."""
    try:
        helper = side.module(HELPER)
    except NotVendored:
        return ()
    return tuple(sorted(getattr(helper, "SUPPORTED_ROLLOUT_RS_OPTIONS", ("token", "sequence", "geometric"))))


@family("core_algos.bypass", CORE)
def bypassing_loss(call: Call) -> Cases:
    """Yield cases of the bypass-mode loss, clipped and by REINFORCE."""
    ways = (None, *rejections(call.side))
    for kind, sampling, rejection in product(("ppo_clip", "reinforce", "none"), (None, "token", "sequence"), ways):
        settings = inputs.actor_settings(global_batch_info={})
        settings["policy_loss"]["rollout_correction"] = {
            "loss_type": kind,
            "rollout_is": sampling,
            "rollout_rs": rejection,
            "rollout_rs_threshold": 1.5,
        }
        case = call(_correct, call, "compute_policy_loss_bypass_mode", config=inputs.config(**settings))
        yield f"{kind}/{sampling}/{rejection}", case


@family("rollout_corr_helper", HELPER)
def rollout_correction(call: Call) -> Cases:
    """Yield cases of importance weights and rejection masks between two policies."""
    old, rollout, mask = inputs.log_probs(71), inputs.log_probs(71) + inputs.draw_per_token(72), inputs.response_mask()
    told = {"old_log_prob": old, "rollout_log_prob": rollout, "response_mask": mask}
    function, ways = "compute_rollout_correction_and_rejection_mask", (None, *rejections(call.side), "none")
    for sampling, rejection, normalised in product((None, "token", "sequence", "none"), ways, (False, True)):
        available = {
            **told,
            "rollout_is": sampling,
            "rollout_is_threshold": 1.5,
            "rollout_rs": rejection,
            "rollout_rs_threshold": 1.3,
            "rollout_token_veto_threshold": 0.05 if normalised else None,
            "rollout_is_batch_normalize": normalised,
        }
        label = f"weights/{sampling}/{rejection}/{normalised}"
        yield label, lambda: outcome(inputs.call, call.get(function), available)
    yield "off-policy", call("compute_offpolicy_metrics", old, rollout, mask)
    yield "from log-probs", call("compute_rollout_corr_metrics_from_logprobs", old, rollout, mask)
