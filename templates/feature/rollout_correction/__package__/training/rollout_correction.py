# vextract:template - edit freely
"""The rollout engine's policy is not quite the trained one: importance weights and rejection, by upstream's functions.

Needs the engine's log-probabilities: actor_rollout_ref.rollout.calculate_log_probs=true.
"""

from typing import Any

import torch
from omegaconf import OmegaConf

from ..errors import ConfigError
from ..vendored.algorithms.rollout_corr_helper import compute_rollout_correction_and_add_to_batch
from ..vendored.protocol import DataProto
from .rollout_bypass import bypass, loss_of_bypass


def take_rollout_log_probs(batch: DataProto, config: Any) -> bool:
    """Take, in bypass mode, the log-probabilities of the rollout as the old ones.

    Args:
        batch: with rollout_log_probs, (bs, response_length); gets old_log_probs of that shape.

    Returns:
        Whether it did: the policy then need not compute them. Responses of engine hf are the policy's own, and so are
        their log-probabilities.
    """
    section = config.algorithm.rollout_correction
    if not section.bypass_mode:
        return False
    if "rollout_log_probs" not in batch.batch.keys():
        if config.actor_rollout_ref.rollout.name == "hf":
            return False
        raise ConfigError(
            "algorithm.rollout_correction.bypass_mode needs the log-probabilities of the rollout",
            "set actor_rollout_ref.rollout.calculate_log_probs=true, with engine vllm or sglang",
        )
    bypass(batch, section)
    return True


def correct(batch: DataProto, config: Any) -> tuple[DataProto, dict[str, float]]:
    """Weigh tokens, and reject tokens or responses, by how far the rollout's policy is from the trained one.

    Args:
        batch: with old_log_probs, response_mask and maybe rollout_log_probs, (bs, response_length).

    Returns:
        The batch with rollout_is_weights, (bs, response_length), if `rollout_is` is set, and what is rejected taken out
        of response_mask; and metrics named rollout_corr/*. Without rollout_log_probs the batch as it is.
    """
    section = config.algorithm.rollout_correction
    if "rollout_log_probs" not in batch.batch.keys() or section.bypass_mode:
        return batch, {}
    corrected, metrics = compute_rollout_correction_and_add_to_batch(batch, section)
    return corrected, dict(metrics)


def policy_loss_changes(config: Any) -> dict[str, Any]:
    """Return what bypass mode changes in the settings of the policy loss."""
    section = config.algorithm.rollout_correction
    return loss_of_bypass(section) if section.bypass_mode else {}


def check_correction(section: Any) -> None:
    """Check the section by correcting a batch of two tokens: upstream's functions refuse what they do not know.

    Raises:
        ConfigError: they refuse it.
    """
    token = torch.ones(2, 1)
    batch = DataProto.from_dict({"old_log_probs": -token, "rollout_log_probs": -token, "response_mask": token})
    config = OmegaConf.create({"algorithm": {"rollout_correction": {**section, "bypass_mode": False}}})
    try:
        correct(batch, config)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"algorithm.rollout_correction cannot be used as it is: {error}",
            "config/rollout_correction/rollout_corr.yaml says what each setting may be",
        ) from error
