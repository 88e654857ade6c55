"""Which settings make a plan fit: each is tried by planning again."""

import copy
from collections.abc import Iterator
from typing import Any

from omegaconf import OmegaConf

from .parts import Planner
from .plan import MemoryPlan

MODEL, ACTOR = "actor_rollout_ref.model", "actor_rollout_ref.actor"
ROLLOUT, REF = "actor_rollout_ref.rollout", "actor_rollout_ref.ref"
LOGITS_MB = 128
LEAST_UTILIZATION = 0.2
MOST_TRIES = 40
MOST_PROCESSES = 64  # times as many

Change = dict[str, Any]


def advised(planner: Planner, config: Any) -> MemoryPlan:
    """Return the plan of a config, with the settings that make it fit, where it does not and there are some."""
    plan = planner.of(config)
    if plan.fits:
        return plan
    changes, changed = _fitting(planner, config, plan)
    more = planner
    while not changed.fits and more.processes < MOST_PROCESSES * planner.processes:
        more = Planner(2 * more.processes, planner.capacity)
        changes, changed = _fitting(more, config, more.of(config))
    if changed.fits:
        plan.changes, plan.changed = changes, changed
    return plan


def _fitting(planner: Planner, config: Any, plan: MemoryPlan) -> tuple[Change, MemoryPlan]:
    """Change a setting at a time, that of the phase which takes most, until the plan fits or nothing helps."""
    changes: Change = {}
    for _ in range(MOST_TRIES):
        if plan.fits:
            break
        found = _next(planner, _with(config, changes), plan)
        if found is None:
            return changes, plan
        changes, plan = {**changes, **found[0]}, found[1]
    for key in [*changes]:  # what was tried before something else made it fit may not be needed
        fewer = {name: value for name, value in changes.items() if name != key}
        without = planner.of(_with(config, fewer))
        if without.fits:
            changes, plan = fewer, without
    return changes, plan


def _next(planner: Planner, config: Any, plan: MemoryPlan) -> tuple[Change, MemoryPlan] | None:
    for change in _candidates(config, plan):
        found = planner.of(_with(config, change))
        if found.total(plan.peak) < plan.total(plan.peak):
            return change, found
    return None


def _with(config: Any, changes: Change) -> Any:
    changed = copy.deepcopy(config)
    for key, value in changes.items():
        OmegaConf.update(changed, key, value)
    return changed


def _candidates(config: Any, plan: MemoryPlan) -> Iterator[Change]:
    """Yield what may help in the phase that takes most, the cheapest first."""
    phase, away = plan.peak, plan.device != "cpu"
    section = config.actor_rollout_ref
    if phase == "gen":
        yield from _for_rollouts(config, plan.processes)
    if phase in ("update_actor", "update_critic") and not section.model.enable_gradient_checkpointing:
        yield {f"{MODEL}.enable_gradient_checkpointing": True}
    of_logits = phase in ("old_log_prob", "ref", "teacher", "update_actor")
    if of_logits and "max_logits_mb" in config.local and (config.local.max_logits_mb or 2 * LOGITS_MB) > LOGITS_MB:
        yield {"local.max_logits_mb": LOGITS_MB}
    yield from _smaller_passes(config, phase)
    if away:
        for key in (f"{ACTOR}.fsdp_config", "critic.model.fsdp_config", f"{REF}.fsdp_config"):
            for name in ("optimizer_offload", "param_offload"):
                if OmegaConf.select(config, f"{key}.{name}") is False:
                    yield {f"{key}.{name}": True}


def _for_rollouts(config: Any, processes: int) -> Iterator[Change]:
    rollout = config.actor_rollout_ref.rollout
    if rollout.name == "hf":
        own = -(-config.data.train_batch_size * rollout.n // processes)
        rows = min(config.local.rollout_micro_batch_size or own, own)
        if rows > 1:
            yield {"local.rollout_micro_batch_size": rows // 2}
        return
    if not rollout.free_cache_engine:
        yield {f"{ROLLOUT}.free_cache_engine": True}
    if rollout.gpu_memory_utilization - 0.1 >= LEAST_UTILIZATION:
        yield {f"{ROLLOUT}.gpu_memory_utilization": round(rollout.gpu_memory_utilization - 0.1, 2)}


def _smaller_passes(config: Any, phase: str) -> Iterator[Change]:
    """Yield passes of half as many rows, or tokens, in a phase."""
    sections = {
        "old_log_prob": (ROLLOUT, "log_prob_"),
        "ref": (REF, "log_prob_"),
        "teacher": (REF, "log_prob_"),
        "values": ("critic", "forward_"),
        "update_actor": (ACTOR, "ppo_"),
        "update_critic": ("critic", "ppo_"),
    }
    if phase not in sections:
        return
    name, prefix = sections[phase]
    section = OmegaConf.select(config, name)
    if section.get(f"{prefix}use_dynamic_bsz", section.get("use_dynamic_bsz", False)):
        longest = config.data.max_prompt_length + config.data.max_response_length
        tokens = section[f"{prefix}max_token_len_per_gpu"]
        if tokens > longest:
            yield {f"{name}.{prefix}max_token_len_per_gpu": max(longest, tokens // 2)}
        return
    steps = config.local.get("gradient_accumulation_steps")
    if prefix == "ppo_" and steps:
        yield {"local.gradient_accumulation_steps": 2 * steps}
        return
    rows = section[f"{prefix}micro_batch_size_per_gpu"]
    if rows > 1:
        whole = config.actor_rollout_ref.actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
        fewer = next(size for size in range(rows // 2, 0, -1) if prefix != "ppo_" or whole % size == 0)
        yield {f"{name}.{prefix}micro_batch_size_per_gpu": fewer}
