# vextract:template base/__package__/settings/checks.py - edit freely
"""What is checked before anything is loaded: settings that only make sense together."""

import os
import sys
from typing import Any

from omegaconf import OmegaConf

from ..errors import ConfigError
from ..training.registries import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY, AdvantageEstimator
from ..training.reward_managers import registered_managers
from . import reward_keys
from .batch_sizes import check_sizes
from .devices import device_problems

# Estimators of verl's that compare the responses to a prompt, and take a lone one's score as it is.
COMPARING = (
    "gdpo",
    "gpg",
    "grpo",
    "grpo_vectorized",
    "opo",
    "optimal_token_baseline",
    "reinforce_plus_plus_baseline",
    "rloo",
    "tir_optimal_token_baseline",
)


def check_config(config: Any, world_size: int, *, sizes: bool = True) -> bool:
    """Check the config for this many processes; `sizes`: those of batches too, which else are checked with the data.

    Returns:
        Whether the reference model is needed.

    Raises:
        ConfigError: settings contradict each other, or name something that does not exist.
    """
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    algorithm = config.algorithm
    _check_registered("algorithm.adv_estimator", algorithm.adv_estimator, ADV_ESTIMATOR_REGISTRY)
    _check_registered(
        "actor_rollout_ref.actor.policy_loss.loss_mode", actor.policy_loss.loss_mode, POLICY_LOSS_REGISTRY
    )
    _check_registered(reward_keys.MANAGER, OmegaConf.select(config, reward_keys.MANAGER), registered_managers())
    if sizes:
        check_sizes(config)
    if rollout.n == 1:
        _note_single_responses(algorithm.adv_estimator)
    if rollout.val_kwargs.do_sample and rollout.val_kwargs.temperature == 0:
        raise ConfigError(
            "actor_rollout_ref.rollout.val_kwargs asks to sample, at temperature 0",
            "set actor_rollout_ref.rollout.val_kwargs.temperature=1.0, or leave do_sample out",
        )
    for problem in device_problems(config):
        raise ConfigError(*problem)
    _check_sharing(config, world_size)
    if algorithm.adv_estimator == AdvantageEstimator.GAE:
        raise ConfigError(
            "algorithm.adv_estimator=gae needs a critic, and this project was created without one",
            "vextract add critic; or choose another estimator, such as grpo",
        )
    return bool(actor.use_kl_loss or algorithm.use_kl_in_reward)


def _note_single_responses(estimator: str) -> None:
    """Say of an estimator that compares responses that there is only one to a prompt."""
    if estimator in COMPARING and os.environ.get("RANK", "0") == "0":
        text = f"algorithm.adv_estimator={estimator} compares the responses to a prompt, and there is one"
        print(f"note: {text}: its score is not compared (actor_rollout_ref.rollout.n is how many)", file=sys.stderr)


def _check_sharing(config: Any, world_size: int) -> None:
    """Refuse groups of processes that would not all be of the size asked for."""
    for key in ("actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.ref.fsdp_config", "critic.model.fsdp_config"):
        size = OmegaConf.select(config, f"{key}.fsdp_size") or -1
        if 0 < size < world_size and world_size % size:
            raise ConfigError(
                f"{key}.fsdp_size is {size}, and {world_size} processes are no multiple of it",
                "set it to a number that divides them (the processes of a machine), or to -1: all share one copy",
            )


def _check_registered(key: str, name: str, registry: dict[str, Any]) -> None:
    if name not in registry and name != "vanilla":  # some releases have this loss in the actor itself
        raise ConfigError(
            f"{key} is {name!r}, which is not registered", f"choose one of: {', '.join(sorted(registry))}"
        )
