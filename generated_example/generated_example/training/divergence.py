# vextract:template base/__package__/training/divergence.py - edit freely
"""End a run whose weights or losses are no numbers any more, and say what led there.

What such a model computes is of no use, and neither is a checkpoint of it: the last good one stays the last one.
"""

import math
from collections import Counter, deque
from typing import Any

import torch

from ..protocol import DataProto
from .distributed import Ranks

LOSSES = {"actor": "actor/pg_loss", "critic": "critic/vf_loss"}
SHOWN = tuple(f"actor/{name}" for name in ("lr", "grad_norm", "pg_loss", "ppo_kl")) + tuple(
    f"critic/{name}" for name in ("lr", "grad_norm", "vf_loss")
)
SECTIONS = {"actor": "actor_rollout_ref.actor", "critic": "critic"}
STEPS_SHOWN = 4
# A single batch may give a loss that is no number: upstream skips its update and goes on. So many in a row do not pass.
PATIENCE = 3


class DivergenceError(RuntimeError):
    """The policy or the critic computes no numbers any more. The text ends with a hint that says what to do."""


class DivergenceCheck:
    """Checks the models of a run after each update and before each checkpoint.

    Args:
        ranks: this process among its peers; every one must make the same calls.
        policy: is tried on a response for each process before it is saved, and so is the critic, if there is one.
    """

    def __init__(self, ranks: Ranks, policy: Any, critic: Any = None) -> None:
        self.ranks = ranks
        self.policy = policy
        self.critic = critic
        self._steps: deque[tuple[int, dict[str, float]]] = deque(maxlen=STEPS_SHOWN)
        self._in_a_row: Counter[str] = Counter()
        self._responses: DataProto | None = None

    def after_update(self, name: str, model: Any, metrics: dict[str, Any], step: int) -> None:
        """Check a model that has just been updated.

        Args:
            name: actor or critic.
            model: the model.
            metrics: of the step so far, as numbers, the same on every process.
            step: which one it is.

        Raises:
            DivergenceError: its weights are NaN, infinite or too large, or its loss has been so several times.
        """
        if not self._steps or self._steps[-1][0] != step:
            self._steps.append((step, {}))
        self._steps[-1][1].update({key: float(metrics[key]) for key in SHOWN if key in metrics})
        if self.ranks.any(not model.is_usable):
            raise self._error(name, f"the {name}'s weights are NaN, infinite or too large to compute with")
        loss = metrics.get(LOSSES[name], 0.0)
        self._in_a_row[name] = 0 if math.isfinite(loss) else self._in_a_row[name] + 1
        if self._in_a_row[name] >= PATIENCE:
            raise self._error(name, f"the {name}'s loss is {loss}, for {PATIENCE} steps in a row")

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
        found = self.ranks.spread(self.policy.compute_log_prob, self._responses).batch["old_log_probs"]
        if not torch.isfinite(found[mask]).all():
            raise self._error("actor", "the policy's log-probabilities are NaN or infinite")
        if self.critic is None:
            return
        if not torch.isfinite(self.ranks.spread(self.critic.compute_values, self._responses).batch["values"]).all():
            raise self._error("critic", "the critic's values are NaN or infinite")

    def _error(self, name: str, what: str) -> DivergenceError:
        lines = [f"the run has diverged: {what}"]
        for step, values in self._steps:
            lines.append(f"  step {step}: " + ", ".join(f"{key} {value:.3g}" for key, value in values.items()))
        section = SECTIONS[name]
        lines.append(
            f"hint: lower {section}.optim.lr, or raise {section}.optim.lr_warmup_steps; these weights were not saved"
        )
        return DivergenceError("\n".join(lines))
