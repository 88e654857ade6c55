# vextract:template - edit freely; upgrades merge your edits
"""The place of rollout correction, in a project that was created without it."""

from typing import Any

from omegaconf import OmegaConf

from ..protocol import DataProto


def take_rollout_log_probs(batch: DataProto, config: Any) -> bool:
    """Whether the log-probabilities of the rollout have become the old ones: never here."""
    return False


def correct(batch: DataProto, config: Any) -> tuple[DataProto, dict[str, float]]:
    """The batch without the log-probabilities of the rollout, which nothing further needs."""
    batch.batch.pop("rollout_log_probs", None)
    return batch, {}


def policy_loss_settings(config: Any) -> dict[str, Any]:
    """The settings of the policy loss: those of the config."""
    settings: dict[str, Any] = OmegaConf.to_container(config.actor_rollout_ref.actor.policy_loss, resolve=True)  # type: ignore[assignment]
    return settings
