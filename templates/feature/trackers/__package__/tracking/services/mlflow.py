# vextract:template - edit freely
"""MLflow as a tracker."""

import os
import re
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ..samples import COLUMNS, Rows, cells
from ..service import Service


class MLflow(Service):
    """A run in MLflow, in the store that MLFLOW_TRACKING_URI names, or else MLflow's own default."""

    name = "mlflow"
    package = "mlflow"
    requirement = "mlflow>=2.10"
    ENDS: ClassVar[dict[str, str]] = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}

    def begin(self, known: str | None) -> str | None:
        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient

        self._metric = Metric
        self._client: Any = MlflowClient()
        if known is not None:
            self._client.update_run(known, status="RUNNING")
            return known
        experiment = self._client.get_experiment_by_name(self.project)
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(self.project)
        begun: str = self._client.create_run(experiment_id, run_name=self.run_name).info.run_id
        settings = [Param(_mlflow_name(name), str(value)[:500]) for name, value in flat(self.config).items()]
        for start in range(0, len(settings), 100):  # as many as a request may have
            self._client.log_batch(begun, params=settings[start : start + 100])
        self._client.log_dict(begun, dict(self.config), "config.json")
        return begun

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        values = [self._metric(_mlflow_name(name), value, now, step) for name, value in metrics.items()]
        for start in range(0, len(values), 1000):
            self._client.log_batch(self.id, metrics=values[start : start + 1000])

    def samples(self, name: str, rows: Rows, step: int) -> None:
        columns = zip(*cells(rows, step), strict=True)
        table = {column: list(values) for column, values in zip(COLUMNS, columns, strict=True)}
        self._client.log_table(self.id, table, f"{name}.json")

    def close(self, outcome: str) -> None:
        self._client.set_terminated(self.id, self.ENDS[outcome])


def _mlflow_name(name: str) -> str:
    """Return a name that MLflow takes: upstream's, with `@` written as upstream writes it there."""
    return re.sub(r"[^\w\-. :/]", "_", name.replace("@", "_at_"))


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings as one mapping from dotted keys; lists stay."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found
