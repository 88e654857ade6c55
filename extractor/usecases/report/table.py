"""Write all metrics of runs as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from extractor.usecases.report.runs import RecordedRun, number


def metrics_table(runs: Sequence[RecordedRun]) -> str:
    """Return a line for each step of each run: run, step, time (Unix seconds), and the metrics by name.

    A metric that a step does not have is empty; one that was not finite is nan.
    """
    names = ["time", *sorted({name for run in runs for name in run.metrics})]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", "step", *names])
    for run in runs:
        for row in run.rows:
            values = [_cell(number(row[name])) if name in row else "" for name in names]
            writer.writerow([run.name, row["step"], *values])
    return text.getvalue()


def _cell(value: float | None) -> str:
    return "nan" if value is None else repr(value)
