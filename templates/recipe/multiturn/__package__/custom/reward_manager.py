# vextract:hook  yours: written once, never touched by an upgrade
"""The reward: what the environment has given for the turns of an episode.

The config selects it as the reward manager `env`; verl's own managers (naive, dapo, ...) stay selectable.
"""

from typing import Any

from ..rewards.manager import TextRewardManager
from .env_wrapper import GuessDigitEnv

try:
    from ..workers.reward_manager.registry import register
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.workers.reward_manager.registry import register


def score_guess(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Score a response that is no episode: the only guess at the digit. Arguments as verl passes them.

    It is used with actor_rollout_ref.rollout.multi_turn.enable=false, and with local.env.is_reward=false.
    """
    env = GuessDigitEnv(max_turns=1)
    env.reset(options={"digit": ground_truth})
    _, reward, _, _, info = env.step(solution_str)
    return {"score": reward, **info}


@register("env")
class EnvRewardManager(TextRewardManager):
    """Returns the rewards of the environments (`rm_scores` in the batch), and scores what is no episode by itself.

    `TextRewardManager` says what it does besides, and which settings it takes; with `weights`, the environments' reward
    is the component `rm`, next to those of a scoring function. Override what is different here, or replace it: verl
    asks for no more than `__init__(tokenizer, num_examine, compute_score, reward_fn_key, ...)` and
    `__call__(data, return_dict)`.
    """

    score = staticmethod(score_guess)
