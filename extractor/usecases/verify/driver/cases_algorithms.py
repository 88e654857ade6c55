"""Define cases of advantages, KL, value loss, grouping and trainer functions."""

from itertools import product
from typing import Any

import numpy as np
import torch

from . import inputs
from .cases import Call, Cases, family, kind_of, outcome, with_gradient
from .sides import Side

CORE = "verl.trainer.ppo.core_algos"
TRAINER = "verl.trainer.ppo.ray_trainer"
AGG_MODES = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "no-such-mode")
VARIANTS = (
    *("outcome", "dense", "singletons", "pairs", "equal", "nothing earned", "not normalised", "holes", "empty row"),
    *("empty row of a pair", "float64", "weights", "components", "weighted components", "by default"),
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
    """Return the registered estimators; without a registry, find them by name."""
    core = side.module(CORE)
    registry: dict[Any, Any] | None = getattr(core, "ADV_ESTIMATOR_REGISTRY", None)
    if registry is not None:
        return registry
    return {name: getattr(core, name) for name in dir(core) if name.startswith("compute_") and "advantage" in name}


@family("core_algos.advantage", CORE)
def advantages(call: Call) -> Cases:
    """Yield cases of every estimator, on outcome and on dense rewards."""
    for name in sorted(estimators(call.side), key=str):
        for variant in VARIANTS:
            yield f"{getattr(name, 'value', name)}/{variant}", lambda: _compute_advantage(call.side, name, variant)


def _compute_advantage(side: Side, name: Any, variant: str) -> Any:
    mask = inputs.response_mask(holes=variant == "holes", empty=variant.startswith("empty row"))
    rewards = inputs.rewards(dense=variant in ("dense", "holes", "weights"), mask=mask)
    if variant == "equal":
        rewards = torch.ones_like(rewards) * mask
    grouped = {"singletons": "singletons", "pairs": "pairs", "empty row of a pair": "pairs"}
    settings: dict[str, Any] = {"gamma": 0.97, "lam": 0.9, "norm_adv_by_std_in_grpo": variant != "not normalised"}
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
    before = available["token_level_rewards"].clone()
    result = outcome(inputs.call, estimators(side)[name], available, by_default=variant == "by default")
    return result, torch.equal(before, available["token_level_rewards"])


@family("core_algos.registries", CORE)
def registries(call: Call) -> Cases:
    """Yield cases of looking up and adding estimators and losses."""
    core = call.side.module(CORE)
    if not hasattr(core, "ADV_ESTIMATOR_REGISTRY"):
        return
    yield "estimators", lambda: sorted(str(getattr(name, "value", name)) for name in core.ADV_ESTIMATOR_REGISTRY)
    yield "unknown estimator", call("get_adv_estimator_fn", "vextract-none")
    yield "unknown loss", kind_of(call("get_policy_loss_fn", "vextract-none"))


@family("core_algos.agg_loss", CORE)
def aggregation(call: Call) -> Cases:
    """Yield cases of every aggregation mode, with empty rows and bf16."""
    loss, mask, short = inputs.draw_per_token(41), inputs.response_mask(), inputs.response_mask(empty=True)
    for mode in AGG_MODES:
        yield mode, call("agg_loss", loss, mask, mode)
        yield f"{mode}/empty row", call("agg_loss", loss, short, mode)
        yield f"{mode}/bf16", call("agg_loss", loss.bfloat16(), mask, mode)
        yield f"{mode}/bool", call("agg_loss", loss, inputs.response_mask(holes=True).bool(), mode)
        yield f"{mode}/nothing", call("agg_loss", loss, torch.zeros_like(loss), mode)
        for known in KNOWN:
            yield f"{mode}/{'+'.join(known)}", call("agg_loss", loss, short, mode, **known)


@family("core_algos.kl_penalty", CORE)
def penalties(call: Call) -> Cases:
    """Yield cases of every KL estimator and its gradient."""
    for name in PENALTIES:
        for scale in (0.0, 0.3, 30.0):
            new, reference = (
                inputs.log_probs(51).requires_grad_(),
                inputs.log_probs(51) + inputs.draw_per_token(52, scale),
            )
            yield f"{name}/{scale}", lambda: with_gradient(call("kl_penalty", new, reference, name)(), new)


@family("core_algos.kl_controller", CORE)
def controllers(call: Call) -> Cases:
    """Yield cases of both controllers, over several updates."""
    adaptive = {"type": "adaptive", "kl_coef": 0.02, "target_kl": 0.1, "horizon": 1000}
    for settings in ({"type": "fixed", "kl_coef": 0.02}, adaptive, {**adaptive, "horizon": 0}, {"type": "other"}):

        def run() -> Any:
            controller = call("get_kl_controller", inputs.config(**settings))()
            if isinstance(controller, Exception):
                return controller
            values = []
            for kl in (0.05, 0.1, 0.4, -0.3, 0.11):
                controller.update(current_kl=kl, n_steps=64)
                values.append(float(controller.value))
            return values

        yield "/".join(str(value) for value in settings.values()), run


@family("core_algos.losses", CORE)
def other_losses(call: Call) -> Cases:
    """Yield cases of value loss, entropy loss, KL rewards and PF-PPO."""
    values, mask = inputs.draw_per_token(61), inputs.response_mask()
    told = {"returns": inputs.draw_per_token(62), "values": values, "response_mask": mask, "cliprange_value": 0.3}

    def value_loss(predicted: torch.Tensor, **available: Any) -> Any:
        function, leaf = call.get("compute_value_loss"), predicted.requires_grad_()
        return with_gradient(outcome(inputs.call, function, {"vpreds": leaf, **available}), leaf)

    for mode in AGG_MODES:
        predicted, logits = (
            values + inputs.draw_per_token(63, 0.4),
            inputs.normal(inputs.BATCH, inputs.LENGTH, 17, seed=64),
        )
        entropy = call("compute_entropy_loss", logits.requires_grad_(), mask, mode)
        yield f"compute_value_loss/{mode}", lambda: value_loss(predicted, **told, loss_agg_mode=mode)
        yield f"compute_entropy_loss/{mode}", lambda: with_gradient(entropy(), logits)
    # Sums of powers of two: what is predicted lies exactly on the borders of the range, and beside them.
    step = torch.arange(inputs.BATCH * inputs.LENGTH).reshape(inputs.BATCH, inputs.LENGTH) % 5 - 2
    edges = {
        "returns": step.roll(1, dims=1) * 0.25,
        "values": torch.zeros(inputs.BATCH, inputs.LENGTH),
        "response_mask": inputs.response_mask(empty=True, holes=True),
        "cliprange_value": 0.25,
    }
    yield "compute_value_loss/edges", lambda: value_loss(step * 0.25, **edges)
    yield "compute_rewards", call("compute_rewards", values, inputs.log_probs(65), inputs.log_probs(66), 0.3)
    for method in ("by default", "pow", "max_min", "max_random", "none"):
        chosen = () if method == "by default" else (method, 2.0)
        yield f"compute_pf_ppo_reweight_data/{method}", lambda: _reweight(call, *chosen)


def _reweight(call: Call, *chosen: Any) -> Any:
    data = call.get("verl.protocol:DataProto").from_dict(
        tensors={"token_level_scores": inputs.draw_per_token(67)},
        non_tensors={"uid": np.array(list("abcdefgh"), dtype=object)},
        meta_info={"rows": list(range(inputs.BATCH)), "other": 3},
    )
    return call("compute_pf_ppo_reweight_data", data, *chosen)()


@family("groupwise", "verl.utils.groupwise")
def grouped(call: Call) -> Cases:
    """Yield cases of statistics per group, for every group id type."""
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
        yield f"index/{label}", call("as_torch_index", index)

    def elsewhere() -> Any:
        found = [call("as_torch_index", index, device="meta")() for index in names.values()]
        statistics = call("group_mean_std", scores, names["ints"].clamp(max=1), device="meta")()
        return [str(getattr(index, "device", index)) for index in found], type(statistics).__name__

    yield "index/elsewhere", elsewhere
    for label, members in (("fours", [0, 1, 1, 0, 2, 1, 0, 0]), ("pairs", [0, 1, 2, 1, 3, 0, 2, 3]), ("gap", [3] * 8)):
        means, before = call("group_mean_std", scores, torch.tensor(members)), scores.clone()
        yield f"mean and std/{label}", lambda: (means(), torch.equal(before, scores))
    flat = torch.tensor([0, 0, 1])
    yield "mean and std/eps", call("group_mean_std", scores[:3], flat, eps=0.5)
    yield "mean and std/nobody", call("group_mean_std", scores[:0], flat[:0])


def rewarded_batch(side: Side, *, with_mask: bool = True, groups: str = "fours") -> Any:
    """Return a batch as it is before the advantages."""
    mask = inputs.response_mask(holes=groups == "pairs")
    prompt = torch.ones(inputs.BATCH, inputs.PROMPT, dtype=torch.long)
    tensors = {
        "responses": torch.ones(inputs.BATCH, inputs.LENGTH, dtype=torch.long),
        "attention_mask": torch.cat([prompt, mask], dim=1),
        "token_level_scores": inputs.rewards(dense=True, mask=mask),
        "token_level_rewards": inputs.rewards(dense=False, mask=mask),
        "values": inputs.draw_per_token(401),
        "old_log_probs": inputs.log_probs(402),
        "ref_log_prob": inputs.log_probs(403),
        "reward_baselines": inputs.normal(inputs.BATCH, seed=404),
        "sum_pi_squared": inputs.log_probs(405).exp(),
        "prompts": prompt,
        **({"response_mask": mask} if with_mask else {}),
    }
    arrays = {"uid": inputs.groups(groups), "a": inputs.normal(inputs.BATCH, seed=406).numpy()}
    return side.get("verl.protocol:DataProto").from_dict(tensors=tensors, non_tensors=arrays)


@family("trainer_functions", TRAINER)
def trainer_functions(call: Call) -> Cases:
    """Compute masks, KL in the reward, advantages."""
    yield "compute_response_mask", lambda: call("compute_response_mask", rewarded_batch(call.side))()

    def penalised(kind: str, *settings: Any, penalty: tuple[str, ...] = (), groups: str = "fours") -> Any:
        controller, data = call.get(f"{CORE}:{kind}KLController")(*settings), rewarded_batch(call.side, groups=groups)
        if not penalty:
            data.batch["response_mask"][5] = 0
        return call.get("apply_kl_penalty")(data, controller, *penalty), float(controller.value)

    for penalty in ("kl", "abs", "mse", "low_var_kl"):
        yield f"apply_kl_penalty/{penalty}", lambda: penalised("Adaptive", 0.02, 0.1, 1000, penalty=(penalty,))
    yield "apply_kl_penalty/by default", lambda: penalised("Fixed", 0.2, groups="pairs")

    def advantage(estimator: Any, groups: str, config: dict[str, Any] | None, more: dict[str, Any]) -> Any:
        data = rewarded_batch(call.side, groups=groups, with_mask=groups == "pairs" or estimator.value != "gae")
        given = None if config is None else inputs.config(**config)
        return call("compute_advantage", data, adv_estimator=estimator, **more, config=given)()

    of_pairs, discounts = {"gdpo_reward_keys": ["a"], "gamma": 1.0, "lam": 1.0}, {"gamma": 0.97, "lam": 0.9}
    plain, undivided = {**discounts, "num_repeat": 4}, {"norm_adv_by_std_in_grpo": False}
    reweighted = {"use_pf_ppo": True, "pf_ppo": {"reweight_method": "pow", "weight_pow": 2.0}}
    variants: dict[str, tuple[str, dict[str, Any] | None, dict[str, Any]]] = {
        "pairs": ("pairs", of_pairs, {}),
        "pairs/no deviation": ("pairs", of_pairs, undivided),
        "plain": ("fours", None, plain),
        "settings": ("fours", {**discounts, "norm_adv_by_std_in_grpo": True}, plain),
        "reweighted": ("fours", {**discounts, **undivided, **reweighted}, plain),
    }
    for estimator, (label, variant) in product(call.get(f"{CORE}:AdvantageEstimator"), variants.items()):
        yield f"compute_advantage/{estimator.value}/{label}", lambda: advantage(estimator, *variant)
