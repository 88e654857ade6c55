# vextract:template base/__package__/training/rollout_check.py - edit freely
"""How far the rollout engine's own probabilities are from the policy's."""

import torch


def rollout_metrics(of_engine: torch.Tensor, own: torch.Tensor, mask: torch.Tensor) -> dict[str, float]:
    """Compute metrics named training/rollout_probs_diff_*, as upstream does, and training/rollout_log_probs_diff_*.

    Args:
        of_engine, own: log-probabilities of the sampled tokens, (bs, response_length).
        mask: of what the model wrote, (bs, response_length) bool. Without a token there are no metrics.
    """
    of_engine, own = of_engine[mask], own[mask]
    if not len(own):
        return {}
    probs, log_probs = (of_engine.exp() - own.exp()).abs(), (of_engine - own).abs()
    return {
        "training/rollout_probs_diff_max": probs.max().item(),
        "training/rollout_probs_diff_mean": probs.mean().item(),
        "training/rollout_probs_diff_std": probs.std().item(),
        "training/rollout_log_probs_diff_max": log_probs.max().item(),
        "training/rollout_log_probs_diff_mean": log_probs.mean().item(),
    }
