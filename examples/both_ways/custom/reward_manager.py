"""The reward: what the environment says of the answer, and of its components."""

from typing import Any

from ..rewards.manager import TextRewardManager
from .env_wrapper import make_env

try:
    from ..vendored.workers.reward_manager.registry import register
except ImportError:
    from verl.workers.reward_manager.registry import register


def score_action(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Score one response, with the arguments that verl passes to a `compute_score`."""
    return dict(make_env({}).score(str(ground_truth), solution_str.strip()))


@register("env")
class ReversalRewardManager(TextRewardManager):
    """Scores each response by `score_action`."""

    score = staticmethod(score_action)
