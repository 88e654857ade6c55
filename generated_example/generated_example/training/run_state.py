# vextract:template base/__package__/training/run_state.py - edit freely
"""What a run needs, besides the weights, to do its next step exactly as it would have been done without a stop."""

import copy
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ..run.distributed import random_state, set_random_state

SETTINGS = {
    "data.shuffle": "prompts of this epoch may come twice, or not at all",
    "data.seed": "the order of this epoch is that of the checkpoint",
    "local.seed": "random numbers go on from where they were",
}


class Prompts:
    """Batches of a trainer's prompts, epoch after epoch, until its last step.

    Args:
        trainer: whose data loader, sample ids and random numbers are drawn from.
    """

    def __init__(self, trainer: Any) -> None:
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


class RunState:
    """The state of a run after a step: remembered, written to checkpoints, and gone back to.

    Args:
        trainer: whose state it is.

    Attributes:
        row: the metrics of the step, which a checkpoint keeps in case the run is killed before they are logged.
        missing_row: those in the checkpoint that the run goes on from, if they are still to be logged.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.row: dict[str, Any] | None = None
        self.missing_row: dict[str, Any] | None = None
        self.identity = trainer.ranks.on_driver(lambda: identity(trainer))
        self.forget()

    def forget(self) -> None:
        """Begin here: what is drawn between now and the next step changes nothing."""
        self._steps, self._random = self.trainer.steps_done, random_state()
        self._remembered: dict[str, Any] | None = None

    def remember(self) -> None:
        """Keep the state, which is that of now, for `save` and `set_random_numbers`."""
        trainer = self.trainer
        self.forget()
        self.row = None
        self._remembered = {**trainer.prompts.place(), "kl_coef": trainer.kl_ctrl.value, "score": trainer.score}

    def set_random_numbers(self) -> None:
        """Put the global random generators back to where they were after the last step, if that is remembered.

        What a caller has drawn since then changes nothing.
        """
        if self._steps == self.trainer.steps_done:
            set_random_state(self._random)

    def save(self, path: str | Path | None = None) -> Path:
        """Save a checkpoint of the state after the last step; see `LocalPPOTrainer.save`."""
        trainer = self.trainer
        if self._remembered is None or self._steps != trainer.steps_done:
            self.remember()
        assert self._remembered is not None
        trainer.divergence.before_saving()
        is_last = trainer.steps_done >= trainer.total_steps
        finished = is_last and trainer.config.trainer.save_freq <= 0
        state = {**self._remembered, "identity": self.identity}
        data = state.pop("data")
        if self.row is not None:
            state["row"] = self.row
        checkpoints = trainer.checkpoints if path is None else trainer.checkpoints.elsewhere(Path(path))
        saved = checkpoints.save(trainer.steps_done, trainer.models, data, state, trainer.score, finished=finished)
        trainer.callbacks("on_save")
        return saved

    def restore(self, step: int, trainer: dict[str, Any], data: Any, random_numbers: dict[str, Any] | None) -> None:
        """Go on after `step` steps, from the state in a checkpoint; the models' weights are loaded already."""
        owner = self.trainer
        owner.steps_done = step
        owner.train_loader.load_state_dict(data)
        if owner.config.algorithm.kl_ctrl.type == "adaptive":  # the other one's coefficient is that of the config
            owner.kl_ctrl.value = trainer["kl_coef"]
        owner.ids.setstate(trainer["ids"])
        owner.score = trainer["score"]
        if random_numbers is not None:
            set_random_state(random_numbers)
        self.missing_row = trainer.get("row")
        if owner.ranks.rank == 0:
            for difference in differences(trainer.get("identity", {}), self.identity):
                print(f"note: {difference}", file=sys.stderr)
        self.forget()


def identity(trainer: Any) -> dict[str, Any]:
    """Return what tells this run's data and their order from others. Rank 0 alone has the data.

    A run that goes on with others trains all the same, and so it may be meant; but it says so.
    """
    settings = {key: OmegaConf.select(trainer.config, key) for key in SETTINGS}
    return {**settings, "rows": len(trainer.train_loader.dataset)}


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a run that goes on is to be told, from what its checkpoint noted and what is so now."""
    for key, what in SETTINGS.items():
        if key in then and then[key] != now[key]:
            yield f"{key} was {then[key]} when the checkpoint was written, and is {now[key]}: {what}"
    if then.get("rows", now["rows"]) != now["rows"]:
        other = f"{now['rows']} rows in place of {then['rows']}"
        yield f"the training data are {other}: prompts of this epoch may come twice, or not at all"
