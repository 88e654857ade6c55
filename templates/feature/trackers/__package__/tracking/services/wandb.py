# vextract:template - edit freely
"""Weights & Biases as a tracker."""

import sys
from collections.abc import Mapping
from typing import Any

from ..samples import COLUMNS, Rows, cells
from ..service import Service


class Wandb(Service):
    """A run on Weights & Biases."""

    name = "wandb"
    package = "wandb"
    requirement = "wandb>=0.17"

    def begin(self, known: str | None) -> str | None:
        import wandb

        self._wandb = wandb
        if not _may_log(wandb):  # it would ask in a terminal, and wait
            raise RuntimeError(
                "nobody is logged in: `wandb login`, or WANDB_API_KEY, sends what is logged; WANDB_MODE=offline keeps "
                "it here for `wandb sync`"
            )
        # A table that updates in place is nothing to keep a copy of.
        has_table = "console" in (self.config["trainer"].get("logger") or ()) and sys.stdout.isatty()
        self._run: Any = wandb.init(
            project=self.project,
            name=self.run_name,
            config=dict(self.config),
            dir=str(self.directory),
            id=known,
            resume="allow",
            settings=wandb.Settings(console="off") if has_table else None,
        )
        self._rows: dict[str, list[list[Any]]] = {}
        return self._run.id

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._run.log(dict(metrics), step=step)

    def samples(self, name: str, rows: Rows, step: int) -> None:
        # Of the tables under a name wandb shows the last: each has the rows of those before it.
        known = self._rows.setdefault(name, [])
        known.extend(cells(rows, step))
        table = self._wandb.Table(columns=list(COLUMNS), data=[list(row) for row in known[-1000:]])
        self._run.log({name: table}, step=step)

    def close(self, outcome: str) -> None:
        self._run.finish(exit_code=int(outcome == "failed"))


def _may_log(wandb: Any) -> bool:
    """Tell whether wandb has what it needs to log, without asking anybody: a key, or a mode that needs none."""
    if wandb.setup().settings.mode in ("offline", "disabled", "dryrun"):
        return True
    try:
        return bool(wandb.login(prompt=False))
    except TypeError:  # earlier versions cannot be told not to ask
        return bool(wandb.api.api_key)
