# vextract:hook  yours: written once, never touched by an upgrade
"""Questions of Reasoning Gym, such as reasoning_gym:chain_sum: one turn, scored by the data set."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import reasoning_gym
from reasoning_gym.factory import DATASETS

from ..episodes.actions import check_name, first_message, read_action


def make_env(name: str, settings: Mapping[str, Any]) -> "ReasoningGymEnv":
    """Return the environment; `settings`: kwargs (of the data set), prompt, val_size, train_size, seed."""
    check_name("Reasoning Gym", name, DATASETS)
    return ReasoningGymEnv(name, settings)


@lru_cache(maxsize=8)
def made(name: str, arguments: str) -> Any:
    return reasoning_gym.create_dataset(name, **json.loads(arguments))


class ReasoningGymEnv:
    """Asks one question, and ends with its answer: `<answer>...</answer>`, or the whole turn."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.name, self.settings = name, settings
        self.val_size, train_size = settings.get("val_size", 20), settings.get("train_size", 200)
        self.size = self.val_size + train_size
        arguments = {"seed": settings.get("seed", 0), "size": self.size, **(settings.get("kwargs") or {})}
        self.dataset = made(name, json.dumps(arguments, default=list))

    def states(self, split: str, settings: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        """Hold the first questions out; none of them is trained on, however often it comes."""
        held_out = {self.dataset[item]["question"]: item for item in range(self.val_size)}
        rest = [n for n in range(self.val_size, self.size) if self.dataset[n]["question"] not in held_out]
        return self.name, [{"item": n} for n in (sorted(held_out.values()) if split == "val" else rest)]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        item = (options or {}).get("item")
        self.entry = self.dataset[(seed or 0) % self.size if item is None else item]
        return first_message(self.settings, self.entry["question"]), {"ground_truth": self.entry["answer"]}

    def step(self, turn: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        action = read_action(turn)
        try:
            score = float(self.dataset.score_answer(action.text, self.entry))
        except Exception:  # of any class: some data sets read numbers where the answer has none
            score = 0.0
        return "", score, True, False, {"acc": float(score >= 1), "tagged": float(action.tagged)}
