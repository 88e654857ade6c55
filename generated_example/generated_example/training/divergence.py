# vextract:template base/__package__/training/divergence.py - edit freely
"""End a run whose weights or losses are no longer finite, and say what led there.

What such a model computes is of no use, and neither is a checkpoint of it: the last good one stays the last one.
"""

import math
from collections import Counter, deque
from typing import Any

import torch

from ..errors import ProjectError
from ..run.distributed import Ranks
from ..vendored.protocol import DataProto
from .suspects import Suspects

LOSSES = {"actor": "actor/pg_loss", "critic": "critic/vf_loss", "reward_model": "reward_model/dpo_loss"}
SHOWN = (
    *(f"actor/{name}" for name in ("lr", "grad_norm", "pg_loss", "ppo_kl")),
    *(f"critic/{name}" for name in ("lr", "grad_norm", "vf_loss")),
    *(f"reward_model/{name}" for name in ("lr", "grad_norm", "dpo_loss")),
)
SECTIONS = {"actor": "actor_rollout_ref.actor", "critic": "critic", "reward_model": "local.prime"}
STEPS_SHOWN = 4
GRADIENTS = {name: f"{name}/grad_norm" for name in LOSSES}
# A single batch may give a loss or gradient that is not finite: upstream skips its update and goes on. So many in a row
# end the run.
PATIENCE = 3


class DivergenceError(ProjectError, RuntimeError):
    """The policy or the critic no longer computes finite numbers. The text ends with a hint that says what to do."""


class DivergenceCheck:
    """Checks the models of a run after each update and before each checkpoint.

    Args:
        ranks: this process among its peers; every one must make the same calls.
        policy: is tried on a response for each process before it is saved, and so is the critic, if there is one.
        suspects: finds the samples of a batch that led to no number, and writes the batch down.
    """

    def __init__(self, ranks: Ranks, policy: Any, critic: Any, suspects: Suspects) -> None:
        self.ranks = ranks
        self.policy = policy
        self.critic = critic
        self.suspects = suspects
        self._steps: deque[tuple[int, dict[str, float]]] = deque(maxlen=STEPS_SHOWN)
        self._in_a_row: Counter[str] = Counter()
        self._responses: DataProto | None = None

    def after_update(self, name: str, model: Any, metrics: dict[str, Any], step: int, batch: DataProto) -> None:
        """Check a model that has just been updated.

        Args:
            name: actor, critic or reward_model.
            model: the model.
            metrics: of the step so far, as numbers, the same on every process.
            step: which one it is.
            batch: the global batch that it was updated on, the same on every process.

        Raises:
            DivergenceError: its weights are NaN, infinite or too large, or its loss or its gradient has been so several
                times. The batch is written down then.
        """
        if not self._steps or self._steps[-1][0] != step:
            self._steps.append((step, {}))
        self._steps[-1][1].update({key: float(metrics[key]) for key in SHOWN if key in metrics})
        if self.ranks.any(not model.is_usable):
            raise self._error(name, f"the {name}'s weights are NaN, infinite or too large to compute with")
        found = {"loss": metrics.get(LOSSES[name], 0.0), "gradient": metrics.get(GRADIENTS[name], 0.0)}
        bad = [f"{what} is {value}" for what, value in found.items() if not math.isfinite(value)]
        self._in_a_row[name] = self._in_a_row[name] + 1 if bad else 0
        if self._in_a_row[name] >= PATIENCE:
            led_there = self.suspects.write(batch, self._log_probs(batch), step)
            what = f"the {name}'s {' and its '.join(bad)}, for {PATIENCE} steps in a row, which changed no weight"
            raise self._error(name, what, led_there)

    def remember(self, batch: DataProto) -> None:
        """Keep a response for each process, to try the models on."""
        rows = slice(self.ranks.world_size)
        columns = {name: values[rows] for name, values in batch.non_tensor_batch.items()}
        self._responses = DataProto(batch.batch[rows].clone(), columns, batch.meta_info)

    def before_saving(self) -> None:
        """Check that the policy still gives probabilities, and the critic values.

        Raises:
            DivergenceError: they are NaN or infinite.
        """
        if self._responses is None:
            return
        mask = self._responses.batch["response_mask"].bool()
        if not torch.isfinite(self._log_probs(self._responses)[mask]).all():
            raise self._error("actor", "the policy's log-probabilities are NaN or infinite")
        if self.critic is None:
            return
        if not torch.isfinite(self.ranks.spread(self.critic.compute_values, self._responses).batch["values"]).all():
            raise self._error("critic", "the critic's values are NaN or infinite")

    def _log_probs(self, batch: DataProto) -> torch.Tensor:
        """Return the policy's log-probabilities of a global batch now, (bs, response_length)."""
        found: torch.Tensor = self.ranks.spread(self.policy.compute_log_prob, batch).batch["old_log_probs"]
        return found

    def _error(self, name: str, what: str, led_there: list[str] | None = None) -> DivergenceError:
        lines = [f"the run has diverged: {what}", *(led_there or [])]
        for step, values in self._steps:
            lines.append(f"  step {step}: " + ", ".join(f"{key} {value:.3g}" for key, value in values.items()))
        section = SECTIONS[name]
        hint = f"hint: lower {section}.optim.lr, or raise {section}.optim.lr_warmup_steps; these weights were not saved"
        if led_there:
            hint = (
                "hint: look at the sample in that file, and at the loss and the reward that it gets; the same command "
                f"goes on from the last checkpoint; local.dtype=float32 is more exact, {section}.optim.lr may be lower"
            )
        lines.append(hint)
        return DivergenceError("\n".join(lines))
