# vextract:template
"""An alarm in training: the reward rises while something else says that the model does not get better."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf

REWARD = ("critic/score/mean", "critic/rewards/mean")
LENGTH = "response_length/mean"
# A change counts from this many standard errors on.
ERRORS = 3.0


class RewardAlarm:
    """Compares the last steps with as many before them.

    Args:
        window: so many steps; 0: never.
        length_ratio: how many times longer, or shorter, responses may get while the reward rises.
        checks: components of the reward that should not fall while it rises: a format, or a second check, which may
            have no weight in it. Each is the metric `reward/<name>/mean`.
    """

    def __init__(
        self, window: int = 50, length_ratio: float = 2.0, checks: Sequence[str] = ("acc", "format", "answer")
    ) -> None:
        self.window, self.length_ratio = window, length_ratio
        self.checks = {f"reward/{name}/mean": name for name in checks}
        self._values: dict[str, deque[float]] = {}
        self._silent = 0

    @classmethod
    def of(cls, config: Any) -> "RewardAlarm":
        """Make the alarm that a config describes in `local.reward.alarm`."""
        return cls(**(OmegaConf.select(config, "local.reward.alarm") or {}))

    def look(self, metrics: Mapping[str, float]) -> list[str]:
        """Take the metrics of a step.

        Returns:
            What is suspicious, in words; then nothing for the steps of a window.
        """
        reward = next((name for name in REWARD if name in metrics), None)
        if not self.window or reward is None:
            return []
        for name in (reward, LENGTH, *self.checks):
            value = metrics.get(name, math.nan)
            if math.isfinite(value):
                self._values.setdefault(name, deque(maxlen=2 * self.window)).append(value)
        self._silent -= 1
        if self._silent >= 0 or self._change(reward) <= 0:
            return []
        before, after = self._means(reward)
        rise = f"over {2 * self.window} steps the reward rose from {before:.3g} to {after:.3g}"
        found = [f"{rise} while {text}" for text in self._astray()]
        self._silent = self.window if found else 0
        return found

    def _astray(self) -> list[str]:
        found = []
        before, after = self._means(LENGTH)
        if self._change(LENGTH) != 0 and max(before, after) > self.length_ratio * min(before, after):
            found.append(f"responses went from {before:.0f} to {after:.0f} tokens")
        for metric, name in self.checks.items():
            if self._change(metric) < 0:
                before, after = self._means(metric)
                found.append(f"{name} fell from {before:.3g} to {after:.3g}")
        return found

    def _means(self, name: str) -> tuple[float, float]:
        values = list(self._values.get(name, ()))
        if len(values) < 2 * self.window:
            return 0.0, 0.0
        return sum(values[: self.window]) / self.window, sum(values[self.window :]) / self.window

    def _change(self, name: str) -> float:
        """Return the difference of the means, or 0.0 where it may be noise."""
        values = list(self._values.get(name, ()))
        if len(values) < 2 * self.window:
            return 0.0
        before, after = self._means(name)
        halves = ((values[: self.window], before), (values[self.window :], after))
        spread = sum((value - mean) ** 2 for half, mean in halves for value in half) / max(1, 2 * self.window - 2)
        error = math.sqrt(2 * spread / self.window)
        return after - before if abs(after - before) > ERRORS * error else 0.0
