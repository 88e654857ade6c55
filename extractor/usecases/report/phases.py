"""Split the time of a step into phases that add up."""

from __future__ import annotations

from typing import Any

from extractor.usecases.report.curves import Axes, buckets, short
from extractor.usecases.report.runs import RecordedRun, number

# What projects measure by `timed`.
STEP_PHASES = (
    "gen",
    "gen_max",
    "reward",
    "old_log_prob",
    "watch",
    "ref",
    "values",
    "teacher",
    "adv",
    "reward_model",
    "update_critic",
    "update_actor",
)
AFTER_STEP = ("testing", "save_checkpoint")
OTHER = "other"  # the rest of timing_s/step
PHASES = (*STEP_PHASES, OTHER, *AFTER_STEP)
POINTS = 300


def phase_layers(run: RecordedRun, axes: Axes) -> dict[str, Any] | None:
    """Return the phases of a run's steps.

    Returns:
        {axis, layers: {phase: seconds at each point}, mean: {phase: seconds per step, over all but the first}}, with
        only the phases that took time; None if no step was timed. A point of a long run is the mean of its steps.
    """
    rows = [index for index, row in enumerate(run.rows) if number(row.get("timing_s/step")) is not None]
    if not rows:
        return None
    times = [_times(run.rows[row]) for row in rows]
    names = [name for name in PHASES if any(time[name] for time in times)]
    parted = buckets(len(rows), POINTS)
    usual = times[1:] if len(times) > 3 else times  # the first step pays for warming up
    means = {name: [sum(times[i][name] for i in part) / len(part) for part in parted] for name in names}
    return {
        "axis": axes.add(tuple(rows[part[len(part) // 2]] for part in parted)),
        "layers": {name: [short(value, 4) for value in values] for name, values in means.items()},
        "mean": {name: short(sum(time[name] for time in usual) / len(usual), 4) for name in names},
    }


def _times(row: Any) -> dict[str, float]:
    known = {name: number(row.get(f"timing_s/{name}")) or 0.0 for name in (*STEP_PHASES, *AFTER_STEP)}
    step = number(row.get("timing_s/step")) or 0.0
    return {**known, OTHER: max(0.0, step - sum(known[name] for name in STEP_PHASES))}
