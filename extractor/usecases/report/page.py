"""Write runs as one HTML page; same files, same bytes."""

import re
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.resources import files
from statistics import fmean, median
from typing import Any

from jinja2 import Environment, StrictUndefined

from extractor.usecases.report.curves import group_curves, shorten
from extractor.usecases.report.runs import RecordedRun, number
from extractor.usecases.report.samples import sample_splits

# The headline of a run: the first of these metrics that it has.
HEADLINES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("reward", ("critic/rewards/mean", "critic/score/mean")),
    ("accuracy", ("reward/acc/mean",)),
)
_NOTHING = "", ""
_MACHINE = ("device", "processes", "platform", "python")

_SECRET = re.compile(r"(\S*(?:api_?key|password|passwd|secret|access_token|auth_token)=)\S+", re.IGNORECASE)


def render(runs: Sequence[RecordedRun]) -> str:
    """Return the page about these runs, in their order."""
    groups, samples = group_curves(runs), sample_splits(runs)
    times = [[shorten(at, 6) for at in run.elapsed] for run in runs]
    steps = [[row["step"] for row in run.rows] for run in runs]
    points = [{"name": run.name, "step": steps[i], "time": times[i]} for i, run in enumerate(runs)]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    return environment.from_string(_name_file("page.html")).render(
        title=_write_title(runs),
        runs=[{"name": run.name, "status": run.status, "error": str(run.end.get("error", ""))} for run in runs],
        summary=_make_summary(runs),
        config=_put_side_by_side([run.config for run in runs]),
        surroundings=_put_side_by_side([_describe_surroundings(run) for run in runs], in_order=True),
        has_curves=bool(groups),
        samples=samples,
        data={"runs": points, "groups": groups, "samples": samples},
        style=_name_file("page.css"),
        script="".join(map(_name_file, ("chart.js", "page.js"))),
    )


def _name_file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _write_title(runs: Sequence[RecordedRun]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs"
    keys = ("trainer.project_name", "trainer.experiment_name")
    known = [runs[0].config[key].strip("'\"") for key in keys if runs[0].config.get(key, "null") != "null"]
    return " / ".join(known) or runs[0].name


def _make_summary(runs: Sequence[RecordedRun]) -> dict[str, Any]:
    """Return the summary table: a row per run, of texts and the lines below them."""
    columns = [(title, [_find_last_and_best(_find_first(run, names)) for run in runs]) for title, names in HEADLINES]
    columns.append(("validation", [_find_last_and_best(_read_validation(run)) for run in runs]))
    for title, names, form in (
        ("time per step", ("timing_s/step", "perf/time_per_step"), _write_duration),
        ("tokens per second", ("perf/throughput",), "{:,.0f}".format),
    ):
        series = [_find_first(run, names) for run in runs]
        columns.append((title, [(form(median(points.values())), "") if points else _NOTHING for points in series]))
    columns = [column for column in columns if set(column[1]) != {_NOTHING}]
    ran = [run.elapsed[-1] if run.rows else None for run in runs]
    return {
        "columns": [title for title, _ in columns],
        "cells": [[cells[index] for _, cells in columns] for index in range(len(runs))],
        "ran": ["" if seconds is None else _write_duration(seconds) for seconds in ran],
    }


def _find_last_and_best(points: dict[int, float]) -> tuple[str, str]:
    if not points:
        return _NOTHING
    best, last = max(points, key=lambda step: points[step]), list(points.values())[-1]
    return f"{last:.4g}", f"best {points[best]:.4g} at {best}"


def _find_first(run: RecordedRun, names: Sequence[str]) -> dict[int, float]:
    """Map steps to values of the first metric the run has."""
    return next(filter(None, map(run.points, names)), {})


def _read_validation(run: RecordedRun) -> dict[int, float]:
    """Map validation steps to the mean score over data sources."""
    scores: dict[int, list[float]] = {}
    for name in run.metrics:
        if name.startswith("val-core/") and "/mean@" in name:
            for step, value in run.points(name).items():
                scores.setdefault(step, []).append(value)
    return {step: fmean(scores[step]) for step in sorted(scores)}


def _describe_surroundings(run: RecordedRun) -> dict[str, str]:
    """Describe a run's last start, from environment.json, in words."""
    start = run.starts[-1] if run.starts else {}
    facts: dict[str, Any] = {}
    if (begin := number(start.get("time"))) is not None:
        resumed = f" at step {start['step']}" if start.get("step") else ""
        facts["started"] = f"{datetime.fromtimestamp(begin, timezone.utc):%Y-%m-%d %H:%M} UTC{resumed}"
    facts["command"] = _SECRET.sub(r"\1(not shown)", str(start.get("command", "")))
    facts["git commit"] = start.get("commit")
    for part in (start.get("project"), start, start.get("packages")):
        known = part if isinstance(part, dict) else {}
        facts |= {name: known.get(name) for name in (_MACHINE if part is start else known)}
    return {name: str(value or "none") for name, value in facts.items()} if start else {}


def _put_side_by_side(tables: Sequence[dict[str, str]] | Sequence[Any], in_order: bool = False) -> list[dict[str, Any]]:
    """Return table rows {name, cells, differs} with a column per run."""
    names = list(dict.fromkeys(name for table in tables for name in table))
    known = [table for table in tables if table]
    return [
        {
            "name": name,
            "cells": [table.get(name) for table in tables],
            "differs": len({table.get(name) for table in known}) > 1,
        }
        for name in (names if in_order else sorted(names))
    ]


def _write_duration(seconds: float) -> str:
    """Format a duration: `340 ms`, `12 min`, `3 h 20 min`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
