# vextract:template base/__package__/training/rollout_check.py - edit freely
"""How far the rollout engine's own probabilities are from the policy's."""

from typing import Any

import torch

from ..vendored.protocol import DataProto


def rollout_metrics(batch: DataProto) -> dict[str, Any]:
    """Compute metrics named training/rollout_probs_diff_*, if the engine has given its log-probabilities.

    Args:
        batch: with old_log_probs and response_mask, (bs, response_length), and maybe rollout_log_probs of that shape.
    """
    if "rollout_log_probs" not in batch.batch.keys():
        return {}
    difference = (batch.batch["rollout_log_probs"].exp() - batch.batch["old_log_probs"].exp()).abs()
    difference = torch.masked_select(difference, batch.batch["response_mask"].bool())
    return {
        "training/rollout_probs_diff_max": difference.max().item(),
        "training/rollout_probs_diff_mean": difference.mean().item(),
        "training/rollout_probs_diff_std": difference.std().item(),
    }
