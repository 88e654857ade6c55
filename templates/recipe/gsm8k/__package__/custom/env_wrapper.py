# vextract:hook  yours: written once, never touched by an upgrade
"""A problem as a text environment with Gymnasium's interface, for `actor_rollout_ref.rollout.multi_turn.enable=true`.

The model answers; if that is wrong it is told so and may try again. Without several turns nothing here is used: the
reward manager scores the responses. Each response has an environment of its own, from `make_env`; it begins with
`reset(seed=..., options=extra_info of the prompt's row)`, and is then in the state that the prompt shows. Nothing here
needs Gymnasium to be installed.
"""

from collections.abc import Mapping
from typing import Any

from .env_dataset import ground_truth
from .reward_manager import score_answer


def make_env(settings: Mapping[str, Any]) -> "ProblemEnv":
    """Return an environment for one episode.

    Args:
        settings: the config's `data.env`: what you put there, for example +data.env.patience=3.
    """
    return ProblemEnv(max_turns=settings.get("max_turns", 2))


class ProblemEnv:
    """A word problem, to be answered in at most `max_turns` turns; only a right answer is worth its score."""

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}

    def __init__(self, max_turns: int = 2) -> None:
        self.max_turns = max_turns
        self._turn = 0
        self._problem: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start with the problem of a row; `options` are its question and answer."""
        self._problem = dict(options or {"question": "How much is 6 times 7?", "answer": "42"})
        self._turn = 0
        return self._problem["question"], {"ground_truth": ground_truth(self._problem["answer"])}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the model's answer; returns observation, reward, terminated, truncated, info, as Gymnasium does."""
        self._turn += 1
        result = score_answer("", action, ground_truth(self._problem["answer"]))
        terminated = result["acc"] == 1.0
        truncated = not terminated and self._turn >= self.max_turns
        reward = result["score"] if terminated or truncated else 0.0
        observation = "" if terminated or truncated else "That is not right. Look for the mistake, and answer again."
        return observation, reward, terminated, truncated, {**result, "turn": self._turn}

    def render(self) -> str:
        """Return the problem and the turn as text."""
        return f"{self._problem.get('question')} (turn {self._turn} of {self.max_turns})"

    def close(self) -> None:
        """Release what the environment holds: nothing here."""
