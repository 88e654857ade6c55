"""What TRL's trainers learn by, under verl's names: GRPO's advantages and losses, and RLOO's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from extractor.importers.runs.meaning import Remark

GRPO, RLOO = "grpo", "rloo"
_ACTOR = "actor_rollout_ref.actor"
_NO_DUAL_CLIP = 1e6
_MEANS = {
    "bnpo": "token-mean",
    "dapo": "token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
    "grpo": "seq-mean-token-mean",
    "sapo": "seq-mean-token-mean",
}
# TRL's own, where a run says nothing and verl has another.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    GRPO: {"beta": 0.0, "loss_type": "dapo", "num_generations": 8},
    RLOO: {"beta": 0.05, "num_generations": 2},
}
# Of these, whose value changes what is learned, earlier releases had others.
HAS_CHANGED = {GRPO: ("beta", "loss_type", "max_completion_length"), RLOO: ("max_completion_length",)}
READ = {"beta", "delta", "epsilon_high", "importance_sampling_level", "loss_type", "scale_rewards"}
# Settings that are RLOO's alone.
_OF_RLOO = ("normalize_advantages", "reward_clip_range", "rloo_k")
# RLOO's names before TRL 0.22, with the values that it had unsaid; "": none that counts.
_EARLIER: Mapping[str, tuple[str, Any]] = {
    "rloo_k": ("num_generations", 2),
    "kl_coef": ("beta", 0.05),
    "num_ppo_epochs": ("num_iterations", 4),
    "cliprange": ("epsilon", 0.2),
    "response_length": ("max_completion_length", 53),
}
_EARLIER_TOO: Mapping[str, Any] = {"learning_rate": 5e-5, "temperature": 0.7}
_ONLY_EARLIER = {*_EARLIER, "local_rollout_forward_batch_size", "missing_eos_penalty", "stop_token", "total_episodes"}
_ONLY_EARLIER |= {"num_mini_batches", "token_level_kl", "whiten_rewards", "sft_model_path", "reward_model_path"}


def algorithm_of(stated: Mapping[str, Any], name: str) -> str:
    """Tell what a config is for: RLOO where a setting is of that alone, or a file's name says so; otherwise GRPO."""
    return RLOO if any(key in stated for key in _OF_RLOO) or RLOO in name.lower() else GRPO


def renamed(stated: Mapping[str, Any]) -> tuple[dict[str, Any], list[Remark]]:
    """Return settings of RLOO under today's names, with what the release that they are of had unsaid."""
    if not _ONLY_EARLIER & stated.keys():
        return dict(stated), []
    found = {**dict(_EARLIER.values()), **_EARLIER_TOO}
    found |= {_EARLIER[key][0] if key in _EARLIER else key: value for key, value in stated.items()}
    why = "a run of TRL before 0.22: what it leaves unsaid is as it was there"
    remarks = [Remark("RLOOConfig", ", ".join(sorted(_ONLY_EARLIER & stated.keys())), "changed", why)]
    if "total_episodes" in found:
        why = "responses in all: set trainer.total_training_steps to as many batches as that is"
        remarks.append(Remark("total_episodes", found.pop("total_episodes"), "to do", why))
    return found, remarks


def loss(whole: Mapping[str, Any], algorithm: str) -> dict[str, Any]:
    """Return what is learned: advantages, KL and the loss."""
    low, beta = whole["epsilon"], whole["beta"]
    found: dict[str, Any] = {
        "algorithm.adv_estimator": algorithm,
        f"{_ACTOR}.clip_ratio_high": whole.get("epsilon_high", low),
        f"{_ACTOR}.clip_ratio_c": whole.get("delta", _NO_DUAL_CLIP),
    }
    return found | (_of_rloo(beta) if algorithm == RLOO else _of_grpo(whole, low, beta))


def _of_rloo(beta: float) -> dict[str, Any]:
    """Return RLOO's: KL is taken off the reward, summed over a response, whose ratio is one number."""
    found: dict[str, Any] = {
        f"{_ACTOR}.use_kl_loss": False,
        f"{_ACTOR}.loss_agg_mode": "seq-mean-token-sum",
        "algorithm.use_kl_in_reward": beta > 0,
    }
    if beta > 0:
        kl = {"kl_penalty": "kl", "kl_ctrl.type": "fixed", "kl_ctrl.kl_coef": beta}
        found.update({f"algorithm.{name}": value for name, value in kl.items()})
    return found


def _of_grpo(whole: Mapping[str, Any], low: float, beta: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "algorithm.norm_adv_by_std_in_grpo": whole.get("scale_rewards", True) in (True, "group"),
        "algorithm.use_kl_in_reward": False,
        f"{_ACTOR}.use_kl_loss": beta > 0,
        f"{_ACTOR}.loss_agg_mode": _MEANS.get(str(whole["loss_type"]), "token-mean"),
    }
    if beta > 0:
        found.update({f"{_ACTOR}.kl_loss_coef": beta, f"{_ACTOR}.kl_loss_type": "low_var_kl"})
    mode = "gspo" if whole.get("importance_sampling_level") == "sequence" else str(whole["loss_type"])
    if mode in ("gspo", "cispo", "sapo"):
        found[f"{_ACTOR}.policy_loss.loss_mode"] = mode
    if mode == "cispo":  # TRL's bound is the ratio itself, and there is none from below
        found |= {f"{_ACTOR}.clip_ratio_low": 1.0, f"{_ACTOR}.clip_ratio_high": whole.get("epsilon_high", low) - 1.0}
    return found


def remarks(whole: Mapping[str, Any], algorithm: str, updates: int) -> Iterator[Remark]:
    """Yield what is learned otherwise.

    Args:
        whole: The run's settings, with TRL's own.
        algorithm: The run's.
        updates: Optimizer steps that are taken with a batch.
    """
    if algorithm == RLOO:
        if updates > 1:
            why = "of each token, and clipped by it; TRL's is of the whole response: the same in a batch's first update"
            yield Remark("ratio", f"{updates} updates a batch", "changed", why)
        return
    if str(whole["loss_type"]) not in (*_MEANS, "cispo", "sapo"):
        yield Remark("loss_type", whole["loss_type"], "changed", "verl has none of this name: that of DAPO")
    if whole.get("scale_rewards") == "batch":
        why = "by the deviation in the whole batch; verl has each group's, or none: none"
        yield Remark("scale_rewards", "batch", "changed", why)
    if whole.get("use_vllm") and whole.get("vllm_importance_sampling_correction", True):
        why = "vLLM's own probabilities are not corrected for here; algorithm.rollout_correction does it"
        yield Remark("vllm_importance_sampling_correction", True, "changed", why)
