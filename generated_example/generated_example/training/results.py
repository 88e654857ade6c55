# vextract:template base/__package__/training/results.py - edit freely
"""What a run gives to the program that has started it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ..run.checkpoint import Checkpoints
from ..tracking.run_tracker import GENERATIONS, METRICS, read_rows
from ..vendored.protocol import DataProto


class Step(NamedTuple):
    """A step that has been done.

    Attributes:
        number: counted from 1.
        metrics: by upstream's names.
        batch: the global batch, with everything that was computed for it: see `LocalPPOTrainer.train_step`.
    """

    number: int
    metrics: dict[str, float]
    batch: DataProto


@dataclass(frozen=True)
class TrainResult:
    """A run that has ended.

    Attributes:
        checkpoints: those of the run.
        finished: whether it has reached its last step.
        steps: how many were done in all.
    """

    checkpoints: Checkpoints
    finished: bool
    steps: int

    @property
    def directory(self) -> Path:
        """Return where the run's records and checkpoints are."""
        return self.checkpoints.directory

    @cached_property
    def metrics(self) -> dict[int, dict[str, Any]]:
        """Return the metrics of each step; 0 is the validation before the first."""
        return {row["step"]: row for row in read_rows(self.directory / METRICS)}

    @cached_property
    def samples(self) -> list[dict[str, Any]]:
        """Return what the model wrote in some steps: step, prompt, response, ground_truth, score, components, split."""
        return read_rows(self.directory / GENERATIONS)

    @property
    def last_checkpoint(self) -> Path | None:
        """Return the last checkpoint; None: there is none."""
        return self.checkpoints.last_complete()

    @property
    def best_checkpoint(self) -> Path | None:
        """Return the one with the best validation score; None: none was saved after a validation."""
        return self.checkpoints.best()

    def __repr__(self) -> str:
        state = "finished" if self.finished else "stopped"
        return f"TrainResult({state} after {self.steps} steps, last_checkpoint={self.last_checkpoint})"
