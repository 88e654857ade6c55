"""The environment: write digits backwards."""

from collections.abc import Mapping
from typing import Any


def make_env(settings: Mapping[str, Any]) -> "ReversalEnv":
    """Make an environment for one episode.

    Args:
        settings: the config's `data.env`; `digits` is how many there are to write.
    """
    return ReversalEnv(settings.get("digits", 2))


class ReversalEnv:
    """`37=` -> `73`. An episode is one answer."""

    def __init__(self, digits: int = 2) -> None:
        self.digits = digits
        self._question = ""

    def questions(self) -> list[str]:
        """Every state."""
        return [f"{number:0{self.digits}d}=" for number in range(10**self.digits)]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start from the question in `options`, or from the one that the seed picks."""
        every = self.questions()
        self._question = str((options or {}).get("question") or every[(seed or 0) % len(every)])
        return self._question, {"ground_truth": self.answer(self._question)}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the answer; the episode is over."""
        found = self.score(self.answer(self._question), action)
        return "", found["score"], True, False, found

    @staticmethod
    def answer(question: str) -> str:
        """Return the right answer."""
        return question.removesuffix("=")[::-1]

    @staticmethod
    def score(expected: str, action: str) -> dict[str, float]:
        """`place`: the share of characters at their place; `digits`: 0.1 for digits only; `score`: their sum."""
        place = sum(a == b for a, b in zip(action, expected, strict=False)) / max(len(action), len(expected))
        digits = 0.1 * float(action.isdigit())
        return {"score": place + digits, "acc": float(action == expected), "place": place, "digits": digits}
