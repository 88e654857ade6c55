# vextract:template - edit freely
"""End a run whose validation no longer gets better."""

import math
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError


class EarlyStopping:
    """Watches a score of validation, of which more is better, and tells when it has not risen for so long.

    Args:
        settings: `local.early_stopping`.

    Attributes:
        best: the best score so far; None: there was none.
        waited: how many validations there were since then.
        improved: whether the last validation gave the best score.
    """

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.best: float | None = None
        self.best_step = 0
        self.waited = 0
        self.improved = False

    def score_of(self, metrics: Mapping[str, float], score: float | None) -> float | None:
        """Return what a validation counts as: `score`, or the metric that is configured.

        Args:
            metrics: of the validation.
            score: its own, which is the mean of its data sources' first metrics.

        Raises:
            ConfigError: validation gives no such metric.
        """
        name = self.settings.metric
        if name is None:
            return score
        if name not in metrics:
            known = ", ".join(sorted(metric for metric in metrics if metric.startswith("val"))) or "none"
            raise ConfigError(f"validation gives no metric {name}", f"local.early_stopping.metric is one of: {known}")
        return -metrics[name] if self.settings.lower_is_better else metrics[name]

    def note(self, score: float | None, step: int) -> None:
        """Note the score of a validation after a step."""
        value = -math.inf if score is None or not math.isfinite(score) else score
        self.improved = self.best is None or value > self.best + self.settings.min_delta
        if self.improved:
            self.best, self.best_step, self.waited = value, step, 0
        else:
            self.waited += 1

    @property
    def reason(self) -> str | None:
        """Say why the run ends; None: it goes on."""
        patience = self.settings.patience
        if patience is None or self.waited < patience or self.best is None:
            return None
        name = self.settings.metric or "the score of validation"
        best = -self.best if self.settings.metric and self.settings.lower_is_better else self.best
        return (
            f"stopped early: {name} has not become better by more than {self.settings.min_delta:g} in {patience} "
            f"validations (local.early_stopping); it was best after step {self.best_step}, {best:.4g}"
        )

    def state(self) -> dict[str, Any]:
        """Return what a run that is resumed goes on with."""
        return {"best": self.best, "best_step": self.best_step, "waited": self.waited}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.best, self.best_step, self.waited = state["best"], state["best_step"], state["waited"]
