# vextract:template base/__package__/training/prompts.py - edit freely
"""The prompts of a run, one batch after the other."""

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..run.distributed import random_state

if TYPE_CHECKING:
    from .trainer import LocalPPOTrainer


class Prompts:
    """Batches of a trainer's prompts, epoch after epoch, until its last step.

    Args:
        trainer: whose data loader, sample ids and random numbers are drawn from.
    """

    def __init__(self, trainer: "LocalPPOTrainer") -> None:
        self.trainer = trainer
        self._batches = self._drawn()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        return next(self._batches)

    def place(self) -> dict[str, Any]:
        """Return where the next batch is drawn: the states of data loader, sample ids and random generators."""
        trainer = self.trainer
        data = copy.deepcopy(trainer.train_loader.state_dict())
        return {"random": random_state(), "data": data, "ids": trainer.ids.getstate()}

    def _drawn(self) -> Iterator[dict[str, Any]]:
        while self.trainer.steps_done < self.trainer.total_steps:
            yield from self.trainer.train_loader
