# vextract:template base/__package__/training/divergence.py - edit freely
"""End a run whose weights or losses are no longer finite, and say what led there.

What such a model computes is of no use, and neither is a checkpoint of it: the last good one stays the last one.
"""

import math
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import torch

from ..errors import ProjectError
from ..run.distributed import Ranks
from ..vendored.protocol import DataProto

STEPS_SHOWN = 4
# A single batch may give a loss or gradient that is not finite: upstream skips its update and goes on. So many in a row
# end the run.
PATIENCE = 3


class DivergenceError(ProjectError, RuntimeError):
    """A model no longer computes finite numbers. The text ends with a hint that says what to do."""


class DivergenceCheck:
    """Checks the models of a run after each update and before each checkpoint.

    Args:
        ranks: this process among its peers; every one must make the same calls.
        models: those that are trained, by name. The policy (actor) is tried on a response for each process before it is
            saved.
    """

    def __init__(self, ranks: Ranks, models: Mapping[str, Any]) -> None:
        self.ranks = ranks
        self.models = models
        self._steps: deque[tuple[int, dict[str, float]]] = deque(maxlen=STEPS_SHOWN)
        self._in_a_row: Counter[str] = Counter()
        self._responses: DataProto | None = None

    def after_update(self, name: str, metrics: dict[str, Any], step: int) -> None:
        """Check a model that has just been updated.

        Args:
            name: the model's.
            metrics: of the step so far, as numbers, the same on every process.
            step: which one it is.

        Raises:
            DivergenceError: its weights are NaN, infinite or too large, or its loss or its gradient has been so several
                times.
        """
        model = self.models[name]
        loss, gradient = f"{name}/{model.loss_name}", f"{name}/grad_norm"
        if not self._steps or self._steps[-1][0] != step:
            self._steps.append((step, {}))
        shown = (f"{name}/lr", gradient, loss, f"{name}/ppo_kl")
        self._steps[-1][1].update({key: float(metrics[key]) for key in shown if key in metrics})
        if self.ranks.any(not model.is_usable):
            raise self.error(name, f"the {name}'s weights are NaN, infinite or too large to compute with")
        found = {"loss": metrics.get(loss, 0.0), "gradient": metrics.get(gradient, 0.0)}
        bad = [f"{what} is {value}" for what, value in found.items() if not math.isfinite(value)]
        self._in_a_row[name] = self._in_a_row[name] + 1 if bad else 0
        if self._in_a_row[name] >= PATIENCE:
            what = f"the {name}'s {' and its '.join(bad)}, for {PATIENCE} steps in a row, which changed no weight"
            raise self.error_of_update(name, what, step)

    def remember(self, batch: DataProto) -> None:
        """Keep a response for each process, to try the models on."""
        rows = slice(self.ranks.world_size)
        columns = {name: values[rows] for name, values in batch.non_tensor_batch.items()}
        self._responses = DataProto(batch.batch[rows].clone(), columns, batch.meta_info)

    def before_saving(self) -> None:
        """Check that the policy still gives probabilities.

        Raises:
            DivergenceError: they are NaN or infinite.
        """
        if self._responses is None:
            return
        mask = self._responses.batch["response_mask"].bool()
        if not torch.isfinite(self.log_probs(self._responses)[mask]).all():
            raise self.error("actor", "the policy's log-probabilities are NaN or infinite")

    def log_probs(self, batch: DataProto) -> torch.Tensor:
        """Return the policy's log-probabilities of a global batch now, (bs, response_length)."""
        found: torch.Tensor = self.ranks.spread(self.models["actor"].compute_log_prob, batch).batch["old_log_probs"]
        return found

    def error_of_update(self, name: str, what: str, step: int) -> DivergenceError:
        """Return the error of a model whose updates in a row, the last of them in `step`, gave no number."""
        return self.error(name, what)

    def error(self, name: str, what: str, *more: str, hint: str = "") -> DivergenceError:
        """Return an error that says what the last steps gave, and what to do.

        Args:
            name: the model's.
            what: what is wrong with it.
            more: further lines.
            hint: another one than the usual one.
        """
        lines = [f"the run has diverged: {what}", *more]
        for step, values in self._steps:
            lines.append(f"  step {step}: " + ", ".join(f"{key} {value:.3g}" for key, value in values.items()))
        optim = self.models[name].optim_name
        usual = f"lower {optim}.lr, or raise {optim}.lr_warmup_steps; these weights were not saved"
        return DivergenceError("\n".join([*lines, f"hint: {hint or usual}"]))
