# vextract:template base/__package__/training/rollout_correction.py - edit freely
"""The place of rollout correction, in a project that was created without it."""

from typing import Any

from ..vendored.protocol import DataProto


def take_rollout_log_probs(batch: DataProto, config: Any) -> bool:
    """Tell whether the log-probabilities of the rollout have become the old ones: never here."""
    return False


def correct(batch: DataProto, config: Any) -> tuple[DataProto, dict[str, float]]:
    """Return the batch without the log-probabilities of the rollout, which nothing further needs."""
    batch.batch.pop("rollout_log_probs", None)
    return batch, {}


def policy_loss_changes(config: Any) -> dict[str, Any]:
    """Return what rollout correction changes in the settings of the policy loss: nothing here."""
    return {}
