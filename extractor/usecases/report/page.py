"""Write runs as one HTML page; same files, same bytes."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from importlib.resources import files
from statistics import fmean, median
from typing import Any

from jinja2 import Environment, StrictUndefined

from extractor.usecases.report.curves import group_curves, list_metric_names
from extractor.usecases.report.runs import RecordedRun, number
from extractor.usecases.report.samples import sample_splits

# The headline of a run: the first of these metrics that it has.
HEADLINES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("reward", ("critic/rewards/mean", "critic/score/mean")),
    ("accuracy", ("reward/acc/mean",)),
)
SOURCES = ("data.train_files", "data.val_files", "data.env.", "reward.custom_reward_function", "custom_reward_function")
# A value to sort by, its text, and the line below it.
Cell = tuple[float, str, str]

_SECRET = re.compile(r"(\S*(?:api_?key|password|passwd|secret|access_token|auth_token)=)\S+", re.IGNORECASE)


def render(runs: Sequence[RecordedRun]) -> str:
    """Return the page about these runs, in their order."""
    groups, axes = group_curves(runs)
    samples = sample_splits(runs)
    data = {
        "runs": [{"name": run.name, "axes": axis.data()} for run, axis in zip(runs, axes, strict=True)],
        "groups": groups,
        "samples": samples,
    }
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    return environment.from_string(_name_file("page.html")).render(
        title=_write_title(runs),
        runs=[{"name": run.name, "status": _describe_status(run), "error": run.error} for run in runs],
        summary=_make_summary(runs),
        values=_make_values_table(runs),
        config=_put_side_by_side([run.config for run in runs]),
        surroundings=_put_side_by_side([_describe_surroundings(run) for run in runs], in_order=True),
        has_curves=bool(groups),
        samples=samples,
        data=data,
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


def _describe_status(run: RecordedRun) -> str:
    """Describe a run's progress: `step 60 of 100, stopped`."""
    step, total = run.last_step, run.total_steps
    where = "no step yet" if step is None else f"step {step}" + (f" of {total}" if total else "")
    return ", ".join(part for part in (where, run.status) if part)


def _make_summary(runs: Sequence[RecordedRun]) -> dict[str, Any]:
    """Return the summary table: a row per run, best values marked.

    What is learned is compared between runs on the same data that have come equally far.
    """
    # The settings that say where prompts and rewards come from.
    sources = sorted({key for run in runs for key in run.config if key.startswith(SOURCES)})
    alike = len({(run.last_step, *(run.config.get(key) for key in sources)) for run in runs}) == 1
    learned = max if alike else None
    columns = [
        (title, [_find_last_and_best(_find_first(run, names)) for run in runs], learned) for title, names in HEADLINES
    ]
    columns.append(("validation", [_find_last_and_best(_read_validation(run)) for run in runs], learned))
    for title, names, form, better in (
        ("time per step", ("timing_s/step", "perf/time_per_step"), _write_duration, min),
        ("tokens per second", ("perf/throughput",), "{:,.0f}".format, max),
    ):
        usual = [median(points.values()) if (points := _find_first(run, names)) else None for run in runs]
        columns.append((title, [None if value is None else (value, form(value), "") for value in usual], better))
    columns = [column for column in columns if any(column[1])]
    ran = [run.elapsed[-1] if run.rows else None for run in runs]
    return {
        "columns": [title for title, _, _ in columns],
        "cells": [[_make_cell(cells, index, better) for _, cells, better in columns] for index in range(len(runs))],
        "ran": ["" if seconds is None else _write_duration(seconds) for seconds in ran],
    }


def _find_last_and_best(points: dict[int, float]) -> Cell | None:
    if not points:
        return None
    best = max(points, key=lambda step: points[step])
    last = list(points.values())[-1]
    return last, _shorten(last), f"best {_shorten(points[best])} at {best}"


def _make_cell(cells: Sequence[Cell | None], index: int, better: Callable[..., float] | None) -> dict[str, Any]:
    cell, values = cells[index], [each[0] for each in cells if each]
    if cell is None:
        return {"text": "", "more": "", "best": False}
    best = better is not None and len(set(values)) > 1 and cell[0] == better(values)
    return {"text": cell[1], "more": cell[2], "best": best}


def _find_first(run: RecordedRun, names: Sequence[str]) -> dict[int, float]:
    """Map steps to values of the first metric the run has."""
    for name in names:
        if points := run.points(name):
            return points
    return {}


def _read_validation(run: RecordedRun) -> dict[int, float]:
    """Map validation steps to the mean score over data sources."""
    found: dict[int, list[float]] = {}
    for name in run.metrics:
        if name.startswith("val-core/") and "/mean@" in name:
            for step, value in run.points(name).items():
                found.setdefault(step, []).append(value)
    return {step: fmean(found[step]) for step in sorted(found)}


def _make_values_table(runs: Sequence[RecordedRun]) -> list[dict[str, Any]]:
    """Return a table of each run's last, lowest and highest values."""
    rows = []
    for name in list_metric_names(runs):
        cells: list[tuple[str, ...] | None] = []
        for points in (run.points(name) for run in runs):
            ends = [choose(points, key=points.__getitem__) for choose in (min, max)] if points else []
            low_and_high = (f"{_shorten(points[step])} at {step}" for step in ends)
            cells.append((_shorten(next(reversed(points.values()))), *low_and_high) if points else None)
        rows.append({"name": name, "cells": cells})
    return rows


def _describe_surroundings(run: RecordedRun) -> dict[str, str]:
    """Describe environment.json in words, joining differing values of several starts."""
    if not run.starts:
        return {}
    facts: dict[str, list[str]] = {}

    def add(name: str, value: Any) -> None:
        text = "" if value is None else str(value)
        known = facts.setdefault(name, [])
        if text and text not in known:
            known.append(text)

    for start in run.starts:
        resumed = f" at step {start['step']}" if start.get("step") else ""
        if (begin := number(start.get("time"))) is not None:
            add("started", f"{datetime.fromtimestamp(begin, timezone.utc):%Y-%m-%d %H:%M} UTC{resumed}")
        add("command", _SECRET.sub(r"\1(not shown)", str(start.get("command", ""))))
        add("git commit", start.get("commit"))
        for name, value in _list_items(start.get("project")):
            add(name, value)
        for name in ("device", "processes", "platform", "python"):
            add(name, start.get(name))
        for name, value in _list_items(start.get("packages")):
            add(name, value)
    return {name: ", then ".join(values) or "none" for name, values in facts.items()}


def _list_items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


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


def _shorten(value: float) -> str:
    return f"{value:.4g}"


def _write_duration(seconds: float) -> str:
    """Format a duration: `340 ms`, `12 min`, `3 h 20 min`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
