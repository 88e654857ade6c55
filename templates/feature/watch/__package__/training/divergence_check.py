# vextract:template - edit freely
"""Whether a run has diverged. Each model is checked after its update, and before it is saved."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch

from ..errors import DivergenceError
from ..run.distributed import Ranks
from ..switches import CRITIC
from ..vendored.protocol import DataProto
from .suspects import Suspects

STEPS_SHOWN = 4
# A single batch may give a loss or gradient that is not finite: upstream skips its update and goes on. So many in a row
# end the run.
PATIENCE = 3
# Of each model the metric of its loss.
LOSSES = {"actor": "pg_loss", "critic": "vf_loss", "reward_model": "dpo_loss"}


class DivergenceCheck:
    """Checks the models of a run after each update and before each checkpoint.

    What a model computes that has diverged is of no use, and neither is a checkpoint of it: the last good one stays.

    Args:
        ranks: this process among its peers; every one must make the same calls.
        models: those that are trained, by name. The policy (actor) is tried on a response for each process before it is
            saved.
        suspects: finds the samples of its batch that led to no number.
    """

    def __init__(self, ranks: Ranks, models: Mapping[str, Any], suspects: Suspects) -> None:
        self.ranks = ranks
        self.models = models
        self.suspects = suspects
        self._steps: dict[int, dict[str, float]] = {}
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
        loss, gradient = f"{name}/{LOSSES[name]}", f"{name}/grad_norm"
        shown = (f"{name}/lr", gradient, loss, f"{name}/ppo_kl")
        self._steps.setdefault(step, {}).update({key: float(metrics[key]) for key in shown if key in metrics})
        self._steps.pop(step - STEPS_SHOWN, None)
        if self.ranks.any(not self.models[name].is_usable):
            raise self.error(name, f"the {name}'s weights are NaN, infinite or too large to compute with")
        found = {"loss": metrics.get(loss, 0.0), "gradient": metrics.get(gradient, 0.0)}
        bad = [f"{what} is {value}" for what, value in found.items() if not math.isfinite(value)]
        self._in_a_row[name] = self._in_a_row[name] + 1 if bad else 0
        if self._in_a_row[name] >= PATIENCE:
            what = f"the {name}'s {' and its '.join(bad)}, for {PATIENCE} steps in a row, which changed no weight"
            batch = self.suspects.batch
            led_there = self.suspects.write(batch, self.log_probs(batch), step)
            hint = (
                "look at the sample in that file, and at the loss and the reward that it gets; the same command goes "
                "on from the last checkpoint; local.dtype=float32 is more exact, and "
                f"{self.models[name].optim_name}.lr may be lower"
            )
            raise self.error(name, what, *led_there, hint=hint)

    def remember(self, batch: DataProto) -> None:
        """Keep a response for each process, to try the models on."""
        some = batch[: self.ranks.world_size]
        self._responses = DataProto(some.batch.clone(), some.non_tensor_batch, some.meta_info)

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
        if CRITIC and (critic := self.models.get("critic")) is not None:
            values = self.ranks.spread(critic.compute_values, self._responses).batch["values"]
            if not torch.isfinite(values).all():
                raise self.error("critic", "the critic's values are NaN or infinite")

    def log_probs(self, batch: DataProto) -> torch.Tensor:
        """Return the policy's log-probabilities of a global batch now, (bs, response_length)."""
        found: torch.Tensor = self.ranks.spread(self.models["actor"].compute_log_prob, batch).batch["old_log_probs"]
        return found

    def error(self, name: str, what: str, *more: str, hint: str = "") -> DivergenceError:
        """Return an error that says what the last steps gave, and what to do.

        Args:
            name: the model's.
            what: what is wrong with it.
            more: further lines.
            hint: another one than the usual one.
        """
        lines = [f"the run has diverged: {what}", *more]
        for step, values in self._steps.items():
            lines.append(f"  step {step}: " + ", ".join(f"{key} {value:.3g}" for key, value in values.items()))
        return DivergenceError("\n".join([*lines, f"hint: {hint or self.models[name].lower_rate}"]))
