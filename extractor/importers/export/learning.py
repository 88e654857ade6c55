"""Settings that a release does not have, of which one is told: they change what is learned, or from which prompts."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from extractor.importers.config.keys import Key, about_the_machine

_Flat = Mapping[str, Any]
_ACTOR, _CORRECTION = "actor_rollout_ref.actor", "algorithm.rollout_correction"

# Sections with what is learned, and from what; of the project's own settings these.
_LEARNED = ("actor_rollout_ref.", "algorithm.", "critic.", "custom_reward_function.", "data.", "reward")
_OWN = (
    "local.early_stopping.patience",
    "local.keep_special_tokens",
    "local.quantization.load_in_4bit",
    "local.rollout.ahead",
)
# In these, parts of keys that say where, how fast and under which names something is computed, stored, shown or
# validated.
_ABOUT_ELSE = re.compile(
    r"(?:^|[._])(?:agent|balance|cache|checkpoint\w*|chunk\w*|disable_log|dtype|dynamic_bsz|eager|engine_kwargs|external_lib"
    r"|fsdp\w*|fused\w*|gpu\w*|gpus?_per_node|key|launch\w*|liger|load_format|log_prob\w*|max_model_len|max_num\w*"
    r"|max_token_len\w*|merge|micro_batch\w*|module|nccl\w*|nnodes|num_batched\w*|num_workers|offload\w*|overlong_buffer"
    r"|padding|parallel\w*|profiler|return_\w+|sandbox_fusion|seed|server|shm|skip\w*|source|strategy|sync|timeout"
    r"|torch_compile|trace|trust_remote_code|update_weights\w*|val|validation\w*|workers)(?:$|[._])"
)
_FREE = re.compile(r"(?:_kwargs|override_config|override_optimizer_config)\.")

# What a release does that has no such setting, where that is not what null, false, 0 and -1 stand for.
ANYWAY = {
    "*.loss_agg_mode": "token-mean",
    "*.loss_mode": "vanilla",
    "*.optim.betas": [0.9, 0.999],
    "*.optim.clip_grad": 1.0,
    "*.optim.num_cycles": 0.5,
    "*.optim.optimizer": "AdamW",
    "*.optim.optimizer_impl": "torch.optim",
    "*.optim.zero_indexed_step": True,
    "*.multi_turn.max_parallel_calls": 1,
    "*.repetition_penalty": 1.0,
    "*.norm_adv_by_std_in_grpo": True,
}
_NOTHING: tuple[Any, ...] = (None, False, 0, -1, "", [], {})

# Settings of something that is switched on by another setting, or chosen by one.
_USED: dict[str, Callable[[_Flat], bool]] = {
    "actor_rollout_ref.actor.loss_scale_factor": lambda flat: "-norm" in str(flat.get(f"{_ACTOR}.loss_agg_mode")),
    "actor_rollout_ref.actor.policy_loss.*": lambda flat: _loss(flat) != "vanilla",
    "actor_rollout_ref.actor.tau_*": lambda flat: _loss(flat) == "sapo",
    "actor_rollout_ref.actor.calculate_*": lambda flat: False,  # what the estimators that need it do themselves
    "actor_rollout_ref.*lora*": lambda flat: bool(flat.get("actor_rollout_ref.model.lora_rank")),
    "*.optim.num_cycles": lambda flat: "cosine" in map(str, flat.values()),
    "algorithm.rollout_is_*": lambda flat: bool(flat.get("algorithm.rollout_is")),
    "algorithm.pf_ppo.*": lambda flat: bool(flat.get("algorithm.use_pf_ppo")),
    f"{_CORRECTION}.rollout_is_*": lambda flat: flat.get(f"{_CORRECTION}.rollout_is") is not None,
    f"{_CORRECTION}.rollout_rs_*": lambda flat: flat.get(f"{_CORRECTION}.rollout_rs") is not None,
    f"{_CORRECTION}.loss_type": lambda flat: bool(flat.get(f"{_CORRECTION}.bypass_mode")),
    "critic.*": lambda flat: flat.get("algorithm.adv_estimator") == "gae",
}


def _loss(flat: _Flat) -> Any:
    return flat.get(f"{_ACTOR}.policy_loss.loss_mode", "vanilla")


def remarks(keys: Sequence[Key]) -> list[str]:
    """Return a warning of each section with settings that are lost and make this another experiment."""
    flat = {key.key: key.value for key in keys}
    found = [key for key in keys if key.is_lost and changes_the_experiment(key.key, key.value, flat)]

    def group(key: Key) -> tuple[str, str]:
        return key.key.rpartition(".")[0], key.reason

    return [
        f"{section} ({', '.join(_said(key) for key in items)}): {reason}, so this is another experiment there"
        for (section, reason), items in groupby(sorted(found, key=group), group)
    ]


def _said(key: Key) -> str:
    return f"{key.key.rpartition('.')[2]}={json.dumps(key.value, ensure_ascii=False)}"


def changes_the_experiment(key: str, value: Any, flat: _Flat) -> bool:
    """Tell whether a release without a setting learns something else, or from other prompts.

    Args:
        key, value: The project's.
        flat: All of its settings.
    """
    if key in _OWN:
        return value not in _NOTHING
    if not key.startswith(_LEARNED) or about_the_machine(key) or _ABOUT_ELSE.search(key):
        return False
    if _does_anyway(key, value) or not _is_on(key, flat):
        return False
    return all(used(flat) for pattern, used in _USED.items() if fnmatch.fnmatchcase(key, pattern))


def _does_anyway(key: str, value: Any) -> bool:
    pattern = next((pattern for pattern in ANYWAY if fnmatch.fnmatchcase(key, pattern)), None)
    if pattern is not None:
        return bool(value == ANYWAY[pattern])
    return value in ((None, {}) if _FREE.search(key) else _NOTHING)


def _is_on(key: str, flat: _Flat) -> bool:
    """Tell whether no section that a key is in is switched off."""
    parts = key.split(".")
    sections = (".".join(parts[:end]) for end in range(1, len(parts)))
    return all(flat.get(f"{section}.{name}", True) for section in sections for name in ("enable", "enabled"))
