# vextract:hook  yours: written once, never touched by an upgrade
"""The reward: what the model wrote becomes an action, and the action a score.

The config selects it as the reward manager `env`; verl's own managers (naive, dapo, ...) stay selectable.
"""

import re
from typing import Any

from ..rewards.manager import TextRewardManager
from .env_wrapper import ToyArithmeticEnv

try:
    from ..workers.reward_manager.registry import register
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.workers.reward_manager.registry import register

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def extract_action(text: str) -> str:
    """The action in a response: what the last `<answer>...</answer>` holds, or else the whole text, stripped."""
    tagged = ANSWER.findall(text)
    return (tagged[-1] if tagged else text).strip()


def score_action(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Score one response. Arguments as verl passes them to a `compute_score`.

    It may as well be `async def`, for a score that is waited for, or slow: see `local.reward` in the config.

    Returns:
        `score`, the reward, and next to it any component worth watching. Numbers are averaged over the batch and
        logged (`reward/<name>/mean`); `acc` is what validation reports; `pred` is what majority voting counts.
    """
    action = extract_action(solution_str)
    return {**ToyArithmeticEnv.score(str(ground_truth), action), "pred": action}


@register("env")
class EnvRewardManager(TextRewardManager):
    """Scores each response by `score_action` and puts the score on its last token.

    `TextRewardManager` says what it does besides, and which settings it takes. Override what is different here, or
    replace it: verl asks for no more than `__init__(tokenizer, num_examine, compute_score, reward_fn_key, ...)` and
    `__call__(data, return_dict)`.
    """

    score = staticmethod(score_action)
