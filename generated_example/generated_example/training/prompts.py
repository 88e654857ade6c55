# vextract:template base/__package__/training/prompts.py - edit freely
"""The prompts of a run, one batch after the other; the next one may be drawn before its turn."""

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..run.distributed import random_state, set_random_state

if TYPE_CHECKING:
    from .trainer import LocalPPOTrainer


class Prompts:
    """Batches of a trainer's prompts, epoch after epoch, until its last step.

    Args:
        trainer: whose data loader, sample ids and random numbers are drawn from.

    Attributes:
        current: the batch whose turn it is.
    """

    def __init__(self, trainer: "LocalPPOTrainer") -> None:
        self.trainer = trainer
        self.current: dict[str, Any] | None = None
        self._batches = self._drawn()
        self._waiting: dict[str, Any] | None = None
        self._before: dict[str, Any] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        waiting, self._waiting = self._waiting, None
        self.current = next(self._batches) if waiting is None else waiting
        return self.current

    def ahead(self) -> dict[str, Any]:
        """Draw the next batch before its turn; there is one. `place` is then where its drawing began."""
        self._before = self._place()
        self._waiting = next(self._batches)
        return self._waiting

    def place(self) -> dict[str, Any]:
        """Return where the next batch is drawn: the states of data loader, sample ids and random generators."""
        return self._place() if self._waiting is None else self._before

    def put_back(self) -> bool:
        """Have a batch that was drawn before its turn drawn again; tell whether there was one."""
        if self._waiting is None:
            return False
        trainer, self._waiting = self.trainer, None
        trainer.train_loader.load_state_dict(self._before["data"])
        trainer.ids.setstate(self._before["ids"])
        set_random_state(self._before["random"])
        self._batches = self._drawn()
        return True

    def _place(self) -> dict[str, Any]:
        trainer = self.trainer
        data = copy.deepcopy(trainer.train_loader.state_dict())
        return {"random": random_state(), "data": data, "ids": trainer.ids.getstate()}

    def _drawn(self) -> Iterator[dict[str, Any]]:
        while self.trainer.steps_done < self.trainer.total_steps:
            yield from self.trainer.train_loader
