"""Cases of advantages, KL controllers and trainer functions."""

from itertools import product
from typing import Any

import torch

from . import inputs
from .cases import CaseMaker, Cases, compute, family
from .pool import make_step
from .sides import Side

CORE = "verl.trainer.ppo.core_algos"
TRAINER = "verl.trainer.ppo.ray_trainer"
VARIANTS = (
    *("outcome", "dense", "singletons", "pairs", "equal", "nothing earned", "not normalised", "holes", "empty row"),
    *("empty row of a pair", "float64", "weights", "components", "weighted components", "by default"),
)
# What of the batch an estimator may be told, and a configuration may name.
COMPONENTS = {"gdpo_reward_keys": ["a", "b"]}
DISCOUNTS = {"gamma": 0.97, "lam": 0.9}


def estimators(side: Side) -> dict[Any, Any]:
    """Return the registered estimators; without a registry, find them by name."""
    core = side.module(CORE)
    registry: dict[Any, Any] | None = getattr(core, "ADV_ESTIMATOR_REGISTRY", None)
    if registry is not None:
        return registry
    return {name: getattr(core, name) for name in dir(core) if name.startswith("compute_") and "advantage" in name}


@family("core_algos.advantage", CORE)
def advantages(call: CaseMaker) -> Cases:
    """Yield cases of every estimator, on outcome and on dense rewards."""
    for name, variant in product(sorted(estimators(call.side), key=str), VARIANTS):
        yield f"{getattr(name, 'value', name)}/{variant}", lambda: _compute_advantage(call.side, name, variant)


def _compute_advantage(side: Side, name: Any, variant: str) -> Any:
    mask = inputs.response_mask(holes=variant == "holes", empty=variant.startswith("empty row"))
    rewards = inputs.rewards(dense=variant in ("dense", "holes", "weights"), mask=mask)
    if variant == "equal":
        rewards = torch.ones_like(rewards) * mask
    grouped = {"singletons": "singletons", "pairs": "pairs", "empty row of a pair": "pairs"}
    settings: dict[str, Any] = {**DISCOUNTS, "norm_adv_by_std_in_grpo": variant != "not normalised"}
    available = {
        "token_level_rewards": rewards.double() if variant == "float64" else rewards * (variant != "nothing earned"),
        "response_mask": mask,
        "index": inputs.groups(grouped.get(variant, "fours")),
        "values": inputs.draw_per_token(12),
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
    estimator = estimators(side)[name]
    return compute(estimator, available=available) if variant == "by default" else compute(estimator, **available)


@family("core_algos.registries", CORE)
def registries(call: CaseMaker) -> Cases:
    """Yield the names of the estimators."""
    yield "estimators", lambda: sorted(str(getattr(name, "value", name)) for name in estimators(call.side))


@family("core_algos.kl_controller", CORE)
def controllers(call: CaseMaker) -> Cases:
    """Yield cases of both controllers, over several updates."""
    adaptive = {"type": "adaptive", "kl_coef": 0.02, "target_kl": 0.1, "horizon": 1000}

    def run(settings: dict[str, Any]) -> Any:
        controller, values = call.get("get_kl_controller")(inputs.config(**settings)), []
        for kl in (0.05, 0.1, 0.4, -0.3, 0.11):
            controller.update(current_kl=kl, n_steps=64)
            values.append(float(controller.value))
        return values

    for settings in ({"type": "fixed", "kl_coef": 0.02}, adaptive, {**adaptive, "horizon": 0}, {"type": "other"}):
        yield "/".join(str(value) for value in settings.values()), call(run, settings)


@family("trainer_functions.kl", TRAINER)
def kl_in_reward(call: CaseMaker) -> Cases:
    """Yield cases of KL in the reward, whose controller learns from it."""

    def run(kind: str, *settings: Any, groups: str = "fours", **penalty: str) -> Any:
        controller, data = call.get(f"{CORE}:{kind}KLController")(*settings), make_step(call.side, groups=groups)
        if not penalty:
            data.batch["response_mask"][5] = 0
        return call.get("apply_kl_penalty")(data, controller, **penalty), float(controller.value)

    for penalty in ("kl", "abs", "mse", "low_var_kl"):
        yield penalty, call(run, "Adaptive", 0.02, 0.1, 1000, kl_penalty=penalty)
    yield "by default", call(run, "Fixed", 0.2, groups="pairs")
