# vextract:hook  yours: written once, never touched by an upgrade
"""The reward: what the environment has given for the turns of an episode.

The config selects it as the reward manager `env`; verl's own managers (naive, dapo, ...) stay selectable.
"""

from typing import Any

from ..rewards.manager import TextRewardManager
from ..rewards.scoring import resolved
from .env_wrapper import make_env

try:
    from ..vendored.workers.reward_manager.registry import register
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.workers.reward_manager.registry import register


def score_guess(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Score a response outside of an episode: it is the only action in its row's state. Arguments as verl passes them.

    It is used with actor_rollout_ref.rollout.multi_turn.enable=false, and with local.env.is_reward=false.
    """
    state = dict(extra_info or {})
    env = make_env(state.get("env_settings") or {})
    resolved(env.reset(seed=state.get("env_seed"), options=state))
    _, reward, _, _, info = resolved(env.step(solution_str))
    reported = {name: value for name, value in (info or {}).items() if isinstance(value, (int, float, str))}
    return {**reported, "score": float(reward)}


@register("env")
class EnvRewardManager(TextRewardManager):
    """Returns the rewards of the environments (`rm_scores` in the batch), and scores what is not an episode by itself.

    `TextRewardManager` says what it does besides, and which settings it takes; with `weights`, the environments' reward
    is the component `rm`, next to those of a scoring function. Override what is different here, or replace it: verl
    asks for no more than `__init__(tokenizer, num_examine, compute_score, reward_fn_key, ...)` and
    `__call__(data, return_dict)`.
    """

    score = staticmethod(score_guess)
