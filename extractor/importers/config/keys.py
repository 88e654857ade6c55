"""Map a project's config keys to those of a verl release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from extractor.importers.config.release import ReleaseConfig, VerlDefaults

# Keys that releases have under different names, as (older, newer): whichever the release has is used. A section's name
# stands for all that is in it. What manifests call renamed comes first.
MOVES = (
    ("custom_reward_function", "reward.custom_reward_function"),
    ("reward_manager.name", "reward.reward_manager.name"),
    ("reward_model.reward_manager", "reward.reward_manager.name"),
    ("reward_model.enable", "reward.reward_model.enable"),
    ("reward_model.model.path", "reward.reward_model.model_path"),
    ("reward_model.reward_kwargs", "reward.reward_kwargs"),
    ("reward_model.sandbox_fusion", "reward.sandbox_fusion"),
    ("reward_model.sandbox_fusion_url", "reward_model.sandbox_fusion.url"),
    ("reward_model.sandbox_fusion_url", "reward.sandbox_fusion.url"),
    ("trainer.val_generations_to_log_to_wandb", "trainer.log_val_generations"),
    ("actor_rollout_ref.actor.optim.warmup_style", "actor_rollout_ref.actor.optim.lr_scheduler_type"),
    ("critic.optim.warmup_style", "critic.optim.lr_scheduler_type"),
    ("critic.model.fsdp_config", "critic.fsdp"),
    ("actor_rollout_ref.actor.tau_pos", "actor_rollout_ref.actor.policy_loss.tau_pos"),
    ("actor_rollout_ref.actor.tau_neg", "actor_rollout_ref.actor.policy_loss.tau_neg"),
)

# Settings that releases call otherwise, and that say who scores: the newest name first.
REWARD_FILE = ("reward.custom_reward_function.path", "custom_reward_function.path")
REWARD_MANAGER = ("reward.reward_manager.name", "reward_model.reward_manager")
JUDGE_ENABLED = ("reward.reward_model.enable", "reward_model.enable")

# What verl's training engine reads in the place of what its older actor and critic read. Releases that have both keys
# do not say which of them counts: both are written, and of a run's the engine's is taken.
READ_BY_THE_ENGINE = {
    "actor_rollout_ref.actor.grad_clip": "actor_rollout_ref.actor.optim.clip_grad",
    "critic.grad_clip": "critic.optim.clip_grad",
}

# Where verl computes, stores and logs differs from where a project does: such keys are written even where they have the
# release's default, so that they come back.
ABOUT_THE_MACHINE = {
    "actor_rollout_ref.actor": "fsdp_config strategy use_torch_compile",
    "actor_rollout_ref.model": "enable_gradient_checkpointing override_config path use_remove_padding",
    "actor_rollout_ref.ref": "fsdp_config use_torch_compile",
    "actor_rollout_ref.rollout": "agent calculate_log_probs disable_log_stats dtype enable_prefix_caching "
    "enforce_eager free_cache_engine gpu_memory_utilization load_format max_num_batched_tokens max_num_seqs mode name "
    "tensor_model_parallel_size",
    "actor_rollout_ref": "nccl_timeout",
    "critic": "strategy",
    "critic.model": "fsdp_config use_remove_padding",
    "custom_reward_function": "name",
    "data": "cache_dir dataloader_num_workers filter_overlong_prompts_workers return_raw_chat seed train_files "
    "trust_remote_code val_files",
    "reward_model": "launch_reward_fn_async reward_manager",
    "trainer": "balance_batch default_local_dir experiment_name log_val_generations logger max_actor_ckpt_to_keep "
    "project_name resume_mode save_freq test_freq total_epochs val_before_train",
}


class KeyStatus(str, Enum):
    """The outcome of a config key."""

    CARRIED = "carried"
    DEFAULT = "the release's default"
    RENAMED = "renamed"
    ADDED = "added"
    CHANGED = "changed"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Key:
    """A project's config key, and its outcome in a release.

    Attributes:
        key: The project's.
        value: The project's, resolved.
        status: What became of it.
        target: The release's key; None where it is dropped.
        target_value: What is written there.
        mark: "" or "+".
        reason: Why, where it is not simply carried.
        is_lost: Whether it is dropped, and nothing else of the export has what it says.
    """

    key: str
    value: Any
    status: KeyStatus
    target: str | None = None
    target_value: Any = None
    mark: str = ""
    reason: str = ""
    is_lost: bool = False

    @property
    def written(self) -> bool:
        """Tell whether the launch script has it."""
        return self.status not in (KeyStatus.DROPPED, KeyStatus.DEFAULT)


def is_about_machine(key: str) -> bool:
    """Tell whether a key is about the machine, not the experiment."""
    parts = key.split(".")
    sections = (".".join(parts[:end]) for end in range(1, len(parts)))
    return any(parts[section.count(".") + 1] in ABOUT_THE_MACHINE.get(section, "").split() for section in sections)


def keep_name(key: str) -> None:
    """Return None: a project's keys are those of its release."""


def list_candidates(key: str, renamed: Callable[[str], str | None] = keep_name) -> list[str]:
    """Return a key's possible names in another release, likeliest first."""
    newer, older = [name for name in (renamed(key),) if name is not None], []
    for old, new in reversed(MOVES):
        if key == old or key.startswith(f"{old}."):
            newer.append(new + key.removeprefix(old))
        elif key == new or key.startswith(f"{new}."):
            older.append(old + key.removeprefix(new))
    return list(dict.fromkeys([*newer, key, *older]))


def name_in(key: str, defaults: VerlDefaults, renamed: Callable[[str], str | None] = keep_name) -> str | None:
    """Return a key's name in a release, or None."""
    # A release may keep an old name that nothing reads any more, beside the new one.
    return next((name for name in list_candidates(key, renamed) if name in defaults), None)


def map_key(
    key: str, value: Any, target: ReleaseConfig, defaults: VerlDefaults, changed: Mapping[str, tuple[Any, str]]
) -> Key:
    """Decide what a key becomes in a release.

    Args:
        key, value: The project's.
        target: The release.
        defaults: Its config without overrides.
        changed: Keys whose value has to be another one there: value and reason.
    """
    if key.startswith("local."):
        return _lose(key, value, _LOCAL.get(key.split(".")[1], "only this project's trainer has it"))
    new_value, why = changed.get(key, (value, ""))
    name = name_in(key, defaults)
    if name is None or (isinstance(value, Mapping) and value):  # Hydra takes new keys of a mapping with a + alone
        name = name or max(list_candidates(key), key=defaults.depth)
        return _add(name, key, value, (new_value, why), target, defaults)
    if value != new_value:
        return Key(key, value, KeyStatus.CHANGED, name, new_value, reason=why)
    if name != key:
        return Key(key, value, KeyStatus.RENAMED, name, value, reason=f"its name in verl {target.release}")
    if defaults.flat.get(key, _NOTHING) == value and not is_about_machine(key):
        return Key(key, value, KeyStatus.DEFAULT, name, value)
    return Key(key, value, KeyStatus.CARRIED, name, value)


_NOTHING = object()
_LOCAL = {
    "checkpoint": "verl's checkpoints are shares of each rank, which verl.model_merger puts together",
    "device": "Ray places the workers",
    "dtype": "filled in where config keys refer to it",
    "env": "settings of the environment loop: adapters/settings.json",
    "gradient_accumulation_steps": "verl counts by the size of a pass, ppo_micro_batch_size_per_gpu",
    "reward": "arguments of the reward manager",
    "server": "verl starts its own servers",
    "seed": "verl seeds by data.seed and the engine's own seed",
    "num_threads": "Ray's business",
    "keep_freed_memory": "verl leaves freed memory to the C library",
    "quantization": "verl has no weights in 4 bits: it trains the adapter of a model that is not packed",
    "peer_timeout": "Ray watches the workers",
    "recompute_old_log_probs": "verl always recomputes them",
    "max_logits_mb": "verl has fused kernels instead (actor_rollout_ref.model.use_fused_kernels)",
    "rollout": "verl has trainers of their own for rollouts that are ahead",
    "rollout_micro_batch_size": "of the hf engine only",
}


def _add(
    name: str, key: str, value: Any, changed: tuple[Any, str], target: ReleaseConfig, defaults: VerlDefaults
) -> Key:
    """Decide whether a key missing from the release's config is added."""
    new_value, why = changed
    if value is None or value == {}:
        return Key(key, value, KeyStatus.DROPPED, reason=f"verl {target.release} has no such key, and it is not set")
    if key.startswith("reward_model.") and "reward.reward_model" in defaults:
        return _lose(key, value, f"verl {target.release} runs reward models as servers")
    if key.startswith("reward_manager."):
        return Key(
            key, value, KeyStatus.DROPPED, reason=f"verl {target.release} has its reward manager's name elsewhere"
        )
    refusal = target.refuses(name, defaults.config)
    if refusal is not None:
        return _lose(key, value, refusal)
    # Of a section with names of its own, keys that are no words are nothing that code reads.
    is_read = name not in defaults and target.is_read_in_training(name, defaults.config)
    if not is_read and not _is_open(name, defaults):
        return _lose(key, value, f"nothing in verl {target.release} reads it")
    return Key(
        key, value, KeyStatus.ADDED, name, new_value, "+", why or f"verl {target.release} reads it, and has no default"
    )


def _lose(key: str, value: Any, reason: str) -> Key:
    return Key(key, value, KeyStatus.DROPPED, reason=reason, is_lost=True)


_OF_HOOKS, _BY_NAME = "data.env", "distillation.teacher_models"  # the latter's sections have names of one's own


def _is_open(key: str, defaults: VerlDefaults) -> bool:
    """Tell whether a key lies in a section accepting any key."""
    if key.startswith(_OF_HOOKS) or (key.startswith(f"{_BY_NAME}.") and _BY_NAME in defaults):
        return True
    parts = key.split(".")
    sections = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return any(section in defaults.flat and defaults.flat[section] in ({}, None) for section in sections)
