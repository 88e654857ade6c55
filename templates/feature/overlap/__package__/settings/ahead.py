# vextract:template - edit freely
"""What `local.rollout.ahead=1` needs: an engine beside the training, and a correction for weights of a step before."""

from typing import Any

from ..absent import SHIPPED
from ..errors import ConfigError
from ..switches import DYNAMIC_SAMPLING, PRIME

CORRECTION = "algorithm.rollout_correction"
ENGINE: str = SHIPPED["engine"]


def check_dataset_ahead(dataset: Any) -> None:
    """Check that the prompts of a batch do not depend on what came of the one before.

    Raises:
        ConfigError: they do.
    """
    if hasattr(dataset, "on_batch_end"):
        raise ConfigError(
            "local.rollout.ahead=1 draws a batch before the one before is done, and the dataset's on_batch_end tells "
            f"{type(dataset).__name__} what came of that",
            "leave it out, or take a dataset without on_batch_end",
        )


def check_ahead(config: Any) -> None:
    """Check that responses can be written one batch ahead, and that the loss knows which weights wrote them.

    Raises:
        ConfigError: they cannot, or it does not.
    """
    key = f"local.rollout.ahead={config.local.rollout.ahead}"
    if config.local.rollout.ahead != 1:
        raise ConfigError(key, "0: a batch is written when it is needed; 1: while the one before is trained on")
    rollout, algorithm = config.actor_rollout_ref.rollout, config.algorithm
    if rollout.mode != "async":
        hint = "vextract upgrade --engine vllm (or sglang), and take rollouts from its server" if ENGINE == "hf" else ""
        raise ConfigError(
            f"{key} needs an engine that writes beside the training, and {ENGINE} writes in the process that trains, "
            "with the weights that are being changed",
            f"{hint or 'set actor_rollout_ref.rollout.mode=async: a server writes'}; or leave it out",
        )
    chosen = DYNAMIC_SAMPLING and bool(algorithm.filter_groups.enable)
    if PRIME:
        chosen = chosen or bool(config.local.prime.enable and config.local.prime.filter_accuracy)
    if chosen:
        raise ConfigError(
            f"{key} draws a batch before the rewards of the one before are known, and algorithm.filter_groups, or "
            "local.prime.filter_accuracy, draws as many as the rewards ask for",
            "leave one of the two out",
        )
    if algorithm.adv_estimator == "remax":
        raise ConfigError(
            f"{key} does not write the likeliest responses that algorithm.adv_estimator=remax compares with",
            "choose another estimator, such as rloo, or leave it out",
        )
    section = algorithm.get("rollout_correction")
    if section is None:
        raise ConfigError(
            f"{key} trains on responses of weights that are a step old, and nothing in this project corrects for that",
            "vextract add rollout_correction",
        )
    if section.rollout_is is None and not section.bypass_mode:
        raise ConfigError(
            f"{key} trains on responses of weights that are a step old, and {CORRECTION} does not weigh them",
            f"set {CORRECTION}.rollout_is=token (truncated importance sampling)",
        )
    if not rollout.calculate_log_probs:
        raise ConfigError(
            f"{key} weighs responses by the probabilities that they were written with, which the engine does not give",
            "set actor_rollout_ref.rollout.calculate_log_probs=true",
        )
