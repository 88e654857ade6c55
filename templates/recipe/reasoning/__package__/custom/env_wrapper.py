# vextract:hook  yours: written once, never touched by an upgrade
"""A problem as a text environment with Gymnasium's interface, for `actor_rollout_ref.rollout.multi_turn.enable=true`.

The model answers; if that is wrong it is told so and may try again. Without several turns nothing here is used: the
reward manager scores the responses. Each response has an environment of its own, from `make_env`; it begins with
`reset(seed=..., options=extra_info of the prompt's row)`. Nothing here needs Gymnasium to be installed.
"""

from collections.abc import Mapping
from typing import Any

from .countdown import solves
from .env_dataset import question


def make_env(settings: Mapping[str, Any]) -> "CountdownEnv":
    """Return an environment for one episode.

    Args:
        settings: the config's `data.env`: what you put there, for example +data.env.patience=3.
    """
    return CountdownEnv(max_turns=settings.get("max_turns", 2))


class CountdownEnv:
    """A problem, to be solved in at most `max_turns` turns; its expression may stand in `<answer>` tags."""

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}

    def __init__(self, max_turns: int = 2) -> None:
        self.max_turns = max_turns
        self._turn = 0
        self._numbers: tuple[int, ...] = ()
        self._target = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start with the problem of a row; `options` are its numbers and its target."""
        problem = options or {"numbers": (3, 5, 7), "target": 22}
        self._numbers, self._target = tuple(problem["numbers"]), problem["target"]
        self._turn = 0
        truth = {"numbers": list(self._numbers), "target": self._target}
        return question(self._numbers, self._target), {"ground_truth": truth}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the model's answer; returns observation, reward, terminated, truncated, info, as Gymnasium does."""
        self._turn += 1
        expression = action.rpartition("<answer>")[2].partition("</answer>")[0]
        right = solves(expression, self._numbers, self._target)
        truncated = not right and self._turn >= self.max_turns
        observation = "" if right or truncated else "That does not give the target. Try another expression."
        return observation, float(right), right, truncated, {"acc": float(right), "turn": self._turn}

    def render(self) -> str:
        """Return the problem and the turn as text."""
        return f"{question(self._numbers, self._target)} (turn {self._turn} of {self.max_turns})"

    def close(self) -> None:
        """Release what the environment holds: nothing here."""
