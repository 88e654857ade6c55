"""Cases of policy losses with gradients."""

from itertools import product
from typing import Any

import torch

from . import inputs
from .cases import CaseMaker, Cases, compute, family
from .pool import AGG_MODES
from .sides import Side

CORE = "verl.trainer.ppo.core_algos"
# What a process knows of the batch that its rows are a part of, in releases that ask for it.
SHARE = {"dp_size": 2, "batch_num_tokens": 61, "global_batch_size": 17, "loss_scale_factor": 11}
# How far the policies are apart, and what is at a border: advantages and differences of zero, tokens that are masked.
SITUATIONS = (
    *("far", "weights", "edges", "double", "nobody gained", "no ranges", "far, no ranges", "nothing set"),
    *("first tokens", "by default"),
)
UNSET = ("clip_cov_ratio", "clip_cov_lb", "clip_cov_ub", "kl_cov_ratio", "ppo_kl_coef")


@family("core_algos.policy_loss", CORE)
def policy_losses(call: CaseMaker) -> Cases:
    """Yield cases of every policy loss, by mode and situation."""
    side = call.side
    for name in sorted(getattr(side.module(CORE), "POLICY_LOSS_REGISTRY", {})):
        for mode in AGG_MODES[:-1]:
            yield f"{name}/{mode}", lambda: _run_loss(side, name, mode, "mapping")
            yield f"{name}/{mode}/share of a batch", lambda: _run_loss(side, name, mode, "dataclass", shared=True)
        for kind, situation in product(("mapping", "dataclass"), SITUATIONS):
            yield f"{name}/{situation}/{kind}", lambda: _run_loss(side, name, AGG_MODES[0], kind, situation)
        if name.endswith("_cov"):  # which refuses to choose none
            yield f"{name}/none chosen", lambda: _run_loss(side, name, AGG_MODES[0], "mapping", "none chosen")


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
    return compute(loss, available=available) if situation == "by default" else compute(loss, **available)


def _configure(side: Side, name: str, kind: str, situation: str) -> Any:
    settings = inputs.actor_settings()
    settings["policy_loss"]["loss_mode"] = name
    if situation in ("no ranges", "far, no ranges", "nothing set"):
        settings |= {"clip_ratio_low": None, "clip_ratio_high": None}
    if situation == "none chosen":
        settings["policy_loss"] = {**settings["policy_loss"], "clip_cov_ratio": 0.0, "kl_cov_ratio": 0.0}
    if situation == "nothing set":
        settings |= {"clip_ratio_c": 1.0, "policy_loss": {**settings["policy_loss"], **dict.fromkeys(UNSET)}}
    if situation == "nobody gained" and kind == "dataclass" and name == "sapo":
        settings["tau_pos"] = 0.0  # of gains alone: a token without any that took it would be no number
    if kind == "dataclass":
        return actor_dataclass(side, settings)
    settings["policy_loss"]["rollout_correction"] = inputs.SETTINGS["rollout_correction"]
    return inputs.config(**settings, global_batch_info={})


def actor_dataclass(side: Side, settings: dict[str, Any]) -> Any:
    """Return the settings as upstream's actor dataclass."""
    cls = side.get("verl.workers.config.actor:FSDPActorConfig")
    kind = side.get("verl.workers.config.actor:PolicyLossConfig")
    more = {"dro_beta": 0.3} if "dro_beta" in kind.__dataclass_fields__ else {}
    taus = {"tau_pos": 0.9, "tau_neg": 1.2} if "tau_pos" in cls.__dataclass_fields__ else {}
    return cls(**{**taus, **settings, "policy_loss": kind(**{**more, **settings["policy_loss"]})})


def make_losses_config(side: Side, **changes: Any) -> Any:
    """Return the actor's section as upstream's dataclass."""
    settings = inputs.actor_settings(**changes)
    settings.pop("use_torch_compile", None)
    settings["fsdp_config"] = side.get("verl.workers.config.engine:FSDPEngineConfig")(strategy="fsdp2")
    return actor_dataclass(side, settings)
