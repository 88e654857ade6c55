# vextract:hook  yours: written once, never touched by an upgrade
"""A Gymnasium environment in text, such as gym:FrozenLake-v1."""

import json
import re
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ..episodes.actions import check_name, first_message, numbers_in, read_action


def make_env(name: str, settings: Mapping[str, Any]) -> "GymEnv":
    """Return the environment; `settings`: kwargs (of `gymnasium.make`), prompt, and actions: words for 0, 1, ..."""
    if ":" not in name:  # which is MODULE:NAME, of what a module registers
        check_name("Gymnasium", name, gymnasium.registry)
    return GymEnv(name, settings)


class GymEnv:
    """Shows what `render_mode=ansi` draws, or else the observation; a turn without an action costs a turn."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.name, self.settings = name, settings
        self.env = gymnasium.make(name, **(settings.get("kwargs") or {}))
        self.words, self.space, self.close = list(settings.get("actions") or ()), self.env.action_space, self.env.close
        self.rules = f"{name}: write an action ({', '.join(self.words) or self.space})."

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        state, _ = self.env.reset(seed=seed)
        return first_message(self.settings, self.shown(state), self.rules), {}

    def step(self, turn: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = read_action(turn)
        value = self.parsed(action.text)
        if value is None:
            return action.answer(self.rules), 0.0, False, False, {"valid": 0.0}
        state, reward, terminated, truncated, info = self.env.step(value)
        info = {**numbers_in(info), "valid": 1.0}
        return action.answer(self.shown(state)), float(reward), terminated, truncated, info

    def parsed(self, text: str) -> Any:
        """Return the action that a text names: a text, a number or an array of numbers; None: it names none."""
        words = [self.words.index(word) for word in re.findall(r"\w+", text) if word in self.words]
        numbers: list[Any] = words or re.findall(r"-?\d+(?:\.\d+)?", text)
        value: Any = text
        if isinstance(self.space, spaces.Discrete):
            value = int(numbers[-1]) if str(numbers[-1:]).count(".") == 0 and numbers else None
        elif not isinstance(self.space, spaces.Text):
            right = len(numbers) == np.prod(self.space.shape)
            value = np.array(numbers, dtype=self.space.dtype).reshape(self.space.shape) if right else None
        return value if value is not None and self.space.contains(value) else None

    def shown(self, state: Any) -> str:
        if self.env.render_mode == "ansi":  # it draws in colour where one is
            return re.sub(r"\x1b\[\d+m(.*?)\x1b\[0m", r"[\1]", str(self.env.render())).strip("\n")
        return json.dumps(state, default=lambda v: np.round(v.astype(float) if v.dtype.kind == "f" else v, 4).tolist())
