# vextract:template - edit freely
"""SwanLab as a tracker."""

from collections.abc import Mapping
from typing import Any

from ..samples import Rows, as_text
from ..service import Service


class SwanLab(Service):
    """A run on SwanLab; SWANLAB_MODE says whether it is offline or local."""

    name = "swanlab"
    package = "swanlab"
    requirement = "swanlab>=0.6"

    def begin(self, known: str | None) -> str | None:
        import swanlab

        self._swanlab: Any = swanlab
        resumed = {} if known is None else {"id": known, "resume": "allow"}
        begun: Any = swanlab.init(
            project=self.project,
            experiment_name=self.run_name,
            config=dict(self.config),
            logdir=str(self.directory),
            **resumed,
        )
        found = getattr(begun, "id", None)
        return found if isinstance(found, str) else None

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._swanlab.log(dict(metrics), step=step)

    def samples(self, name: str, rows: Rows, step: int) -> None:
        texts = [self._swanlab.Text(as_text(f"{row.get('prompt')}\n---\n{row.get('response')}")) for row in rows]
        self._swanlab.log({name: texts}, step=step)

    def close(self, outcome: str) -> None:
        if outcome == "failed":
            self._swanlab.finish(state="crashed", error="the run failed")
        else:
            self._swanlab.finish()
