# vextract:template - edit freely
"""Trackio as a tracker."""

import time
from collections.abc import Mapping
from typing import Any

from ..samples import COLUMNS, Rows, cells
from ..service import Service


class Trackio(Service):
    """A run in trackio, in its own directory on this machine (TRACKIO_DIR)."""

    name = "trackio"
    package = "trackio"
    requirement = "trackio>=0.2"

    def begin(self, known: str | None) -> str | None:
        import trackio

        self._trackio: Any = trackio
        # Runs are told apart by their names: another one of the same name gets the time appended.
        identifier = known or f"{self.run_name}-{time.strftime('%Y%m%d-%H%M%S')}"
        trackio.init(
            project=self.project,
            name=identifier,
            config=dict(self.config),
            resume="allow" if known else "never",
            embed=False,
        )
        return identifier

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._trackio.log(dict(metrics), step=step)

    def samples(self, name: str, rows: Rows, step: int) -> None:
        import pandas

        frame = pandas.DataFrame(cells(rows, step), columns=list(COLUMNS))
        self._trackio.log({name: self._trackio.Table(dataframe=frame)}, step=step)

    def close(self, outcome: str) -> None:
        self._trackio.finish()
