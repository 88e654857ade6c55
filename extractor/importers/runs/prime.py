"""Convert process rewards of upstream's PRIME recipe, `recipe.prime.main_prime`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extractor.importers.runs.placeholders import find_unknowns
from extractor.importers.runs.unsupported_keys import Remark

FEATURE = "prime"
ENABLED = "local.prime.enable"
_SECTION, _MODEL = "local.prime.", "reward_model.model."
_POLICY, _REFERENCE = "actor_rollout_ref.model.path", f"{_MODEL}ref_path"
# The recipe's names, and the project's below its section.
_NAMES: Mapping[str, str] = {
    "algorithm.reward_dpo_coef": "reward_dpo_coef",
    "algorithm.reward_gt_coef": "reward_gt_coef",
    "data.accuracy_lower_bound": "accuracy_lower_bound",
    "data.accuracy_upper_bound": "accuracy_upper_bound",
    "data.filter_accuracy": "filter_accuracy",
    "data.filter_truncate": "filter_truncate",
    "data.oversample_factor": "oversample_factor",
    "reward_model.micro_batch_size_per_gpu": "ppo_micro_batch_size_per_gpu",
    "reward_model.mini_batch_size": "ppo_mini_batch_size",
    "reward_model.prime_granularity": "prime_granularity",
    "reward_model.prime_norm": "prime_norm",
    f"{_MODEL}beta_train": "beta_train",
    f"{_MODEL}fsdp_config.optimizer_offload": "fsdp_config.optimizer_offload",
    f"{_MODEL}fsdp_config.param_offload": "fsdp_config.param_offload",
    f"{_MODEL}loss_type": "loss_type",
    f"{_MODEL}optim.grad_clip": "grad_clip",
    f"{_MODEL}optim.lr": "optim.lr",
    f"{_MODEL}optim.weight_decay": "optim.weight_decay",
    f"{_MODEL}path": "path",
    f"{_MODEL}update": "update",
}
# A model that judges responses, which the recipe has not, under the names of its section.
_JUDGES = ("reward.reward_model.enable", "reward_model.enable")


def convert_prime(
    flat: Mapping[str, Any], stated: Mapping[str, Any], project: Mapping[str, Any]
) -> tuple[dict[str, Any], set[str], list[Remark]]:
    """Return the settings of a project's process rewards.

    Args:
        flat: The run's config.
        stated: What the run itself sets.
        project: The project's config.

    Returns:
        Settings by the project's keys, the run's keys that they are made from, and what a user should know.
    """
    found: dict[str, Any] = {key: False for key in _JUDGES if key in project}
    if ENABLED not in project:
        return found, set(), []
    found[ENABLED] = True
    remarks = []
    for key, name in _NAMES.items():
        value = flat.get(key)
        if key not in stated or value is None or find_unknowns(value) or f"{_SECTION}{name}" not in project:
            continue
        if key != f"{_MODEL}path" or value != flat.get(_POLICY):
            found[f"{_SECTION}{name}"] = value
            remarks.append(Remark(key, value, "renamed", f"here it is {_SECTION}{name}"))
    reference, policy = flat.get(_REFERENCE), flat.get(_POLICY)
    if reference is not None and not find_unknowns(reference):
        changed = f"{policy}: rewards are measured against the policy's reference, actor_rollout_ref.ref"
        what, why = ("renamed", f"here it is {_POLICY}") if reference == policy else ("changed", changed)
        remarks.append(Remark(_REFERENCE, reference, what, why))
    return found, {*_JUDGES, _REFERENCE, *_NAMES}, remarks
