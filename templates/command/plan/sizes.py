"""How many rows a process has in each phase of a step, and which phases there are."""

from importlib import import_module
from math import gcd
from typing import Any

from omegaconf import OmegaConf

from ..registries import AdvantageEstimator
from ..workers.role_configs import TAKES_OWN_LOG_PROBS


def device_of(config: Any, part: str) -> str | None:
    """Return the device that `local.devices` names for a part of the run; None: none."""
    found: str | None = OmegaConf.select(config, f"local.devices.{part}")
    return found


def responses(config: Any) -> int:
    """Return how many responses a batch has."""
    count: int = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
    return count


def rows_of_pass(section: Any, prefix: str, length: int, own: int) -> int:
    """Return how many of its `own` rows a process forwards at once, where nothing is learned."""
    by_tokens = section.get(f"{prefix}use_dynamic_bsz", section.get("use_dynamic_bsz", False))
    if by_tokens:
        return max(1, min(own, section[f"{prefix}max_token_len_per_gpu"] // length))
    return max(1, min(own, section[f"{prefix}micro_batch_size_per_gpu"]))


def wants_critic(config: Any) -> bool:
    """Tell whether a run has a critic."""
    critic = config.get("critic")
    if critic is None or critic.enable is None:
        return bool(config.algorithm.adv_estimator == AdvantageEstimator.GAE)
    return bool(critic.enable)


def computes_old_log_probs(config: Any) -> bool:
    """Tell whether log-probabilities are computed before the update: see `LocalPPOTrainer`."""
    actor, local = config.actor_rollout_ref.actor, config.local
    one_update = config.data.train_batch_size <= actor.ppo_mini_batch_size and actor.ppo_epochs == 1
    asked = local.recompute_old_log_probs or config.algorithm.use_kl_in_reward
    given = bool(config.actor_rollout_ref.rollout.calculate_log_probs)
    return bool(asked or given or not (TAKES_OWN_LOG_PROBS and one_update))


def wants_process_rewards(config: Any) -> bool:
    """Tell whether a run has process rewards (PRIME)."""
    return bool((config.local.get("prime") or {}).get("enable"))


def wants_reference(config: Any) -> bool:
    """Tell whether a run has a reference."""
    in_loss, in_reward = config.actor_rollout_ref.actor.use_kl_loss, config.algorithm.use_kl_in_reward
    return bool(in_loss or in_reward or wants_process_rewards(config))


def teachers(config: Any) -> dict[str, str]:
    """Return the settings that name the models of a run's own teachers, and these; one that several name, once."""
    if not (config.get("distillation") or {}).get("enabled"):
        return {}
    from ..settings.teacher_models import teacher_paths

    paths = teacher_paths(config)
    once = {path or config.actor_rollout_ref.model.path: key for key, path in paths.items()}  # null: as a toy policy
    return {key: path for path, key in once.items()}


def said_by_teachers(config: Any) -> int:
    """Return the bytes of what teachers say of a token of a batch: a float32 and an int64 for each that may follow."""
    if not (config.get("distillation") or {}).get("enabled"):
        return 0
    section = config.distillation.distillation_loss
    return 12 * (section.topk if section.loss_mode.endswith("_topk") else 1)


def update_passes(config: Any, section: Any, length: int, world: int) -> tuple[int, int]:
    """Return how many rows one of `world` processes forwards in a pass of an update, and how many such a step has."""
    n = config.actor_rollout_ref.rollout.n
    mini = section.ppo_mini_batch_size * n
    if section.use_dynamic_bsz:
        own = -(-mini // world)
        rows = max(1, min(own, section.ppo_max_token_len_per_gpu // length))
        return rows, -(-own // rows)
    steps = config.local.get("gradient_accumulation_steps")
    micro = max(1, mini // (steps * world) if steps else min(section.ppo_micro_batch_size_per_gpu, mini))
    passes = -(-mini // micro)
    if world > 1 and not shares_passes():
        own = max(1, mini // world)
        return min(micro, own), -(-own // micro)
    blocks = gcd(world, passes)  # of processes, each of which computes whole passes
    return -(-micro * blocks // world), passes // blocks


def shares_passes() -> bool:
    """Tell whether several processes may compute a pass of an update together."""
    try:
        return hasattr(import_module("..workers.passes", __package__), "SharedPasses") or bool(
            import_module("..workers.shared_passes", __package__)
        )
    except ModuleNotFoundError:
        return False
