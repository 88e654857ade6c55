# vextract:hook  yours: written once, never touched by an upgrade
"""The reward: what the model wrote becomes an action, and the action a score.

The config selects it as the reward manager `env`; verl's own managers (naive, dapo, ...) stay selectable.
"""

import re
from typing import Any

from ..rewards.manager import TextRewardManager
from ..rewards.scoring import resolved
from .env_wrapper import make_env

try:
    from ..vendored.workers.reward_manager.registry import register
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.workers.reward_manager.registry import register

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def extract_action(text: str) -> str:
    """Return the action in a response: what the last `<answer>...</answer>` holds, or else the whole text, stripped."""
    tagged = ANSWER.findall(text)
    return (tagged[-1] if tagged else text).strip()


def score_action(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Score one response. Arguments as verl passes them to a `compute_score`.

    A row of the environment is played: its state, and the response as the only action. Any other is compared with its
    ground truth. `vextract add reward_processes` brings ones that are `async def`, or slow.

    Returns:
        `score`, the reward, and next to it any component worth watching. Numbers are averaged over the batch and
        logged (`reward/<name>/mean`); `acc` is what validation reports; `pred` is what majority voting counts.
    """
    action, state = extract_action(solution_str), dict(extra_info or {})
    if "env_settings" in state or "env_seed" in state:
        env = make_env(state.get("env_settings") or {})
        resolved(env.reset(seed=state.get("env_seed"), options=state))
        _, reward, _, _, info = resolved(env.step(action))
        reported = {name: value for name, value in (info or {}).items() if isinstance(value, (int, float, str))}
        return {**reported, "score": float(reward), "pred": action}
    return {**compare(str(ground_truth), action), "pred": action}


def compare(expected: str, action: str) -> dict[str, float]:
    """Compare an action with the expected one: `score` is the share of right characters, `acc` 1.0 if all are right."""
    right = sum(given == wanted for given, wanted in zip(action, expected, strict=False))
    return {"score": right / max(len(action), len(expected), 1), "acc": float(action == expected)}


@register("env")
class EnvRewardManager(TextRewardManager):
    """Scores each response by `score_action` and puts the score on its last token.

    `TextRewardManager` says what it does besides, and which settings it takes. Override what is different here, or
    replace it: verl asks for no more than `__init__(tokenizer, num_examine, compute_score, reward_fn_key, ...)` and
    `__call__(data, return_dict)`.
    """

    score = staticmethod(score_action)
