# vextract:template - edit freely; upgrades merge your edits
"""The curves of a page: which metrics make a chart, in which group it stands, and what is left of a long series."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .runs import Run

# In the order of the page, and of the charts in a group; a metric belongs to the first that has a prefix of its name.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Reward", ("critic/rewards/", "critic/score/", "reward/")),
    ("Validation", ("val-core/", "val-aux/")),
    ("Environment", ("env/", "num_turns/")),
    ("Actor", ("actor/",)),
    ("Critic and advantages", ("critic/",)),
    ("Lengths", ("response", "prompt_length/")),
    ("Timing", ("timing_s/", "timing_per_token_ms/")),
    ("Performance", ("perf/",)),
    ("Rollout against training", ("training/rollout_", "rollout_corr/", "mismatch/", "rollout")),
    ("Other", ("",)),
)
POINTS = 1000  # of a series, at most
NUMBERS = 300_000  # on a page, at most: about 2 MB


@dataclass
class Axes:
    """The x values of a run's series: those of equal length and place are kept once."""

    run: Run
    rows: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, rows: tuple[int, ...]) -> int:
        """The number of the axis with these rows of the run."""
        if rows not in self.rows:
            self.rows.append(rows)
        return self.rows.index(rows)

    def data(self) -> list[dict[str, list[Any]]]:
        """For each axis the steps, and the seconds of running (null if not recorded)."""
        elapsed = self.run.elapsed
        return [
            {
                "step": [self.run.rows[row]["step"] for row in rows],
                "time": [None if elapsed[row] is None else short(elapsed[row], 6) for row in rows],
            }
            for rows in self.rows
        ]


def metric_names(runs: Sequence[Run]) -> list[str]:
    """All metrics of the runs that have a finite value, sorted."""
    known = (name for run in runs for name, column in run.metrics.items() if set(column.values()) != {None})
    return sorted(set(known))


def curve_groups(runs: Sequence[Run]) -> tuple[list[dict[str, Any]], list[Axes]]:
    """Everything that the page draws as curves.

    Returns:
        Groups of charts, {title, charts: [{name, band, lines: [{run, axis, v, lo, hi}]}], constant: [[name, value]]}.
        `v` holds values; where a series was too long, means over as many steps as one point stands for, with the
        least and the greatest of them in `lo` and `hi`. Metrics named .../mean, .../min and .../max make one chart:
        the means, in a band. And the axes of each run, which `axis` counts.
    """
    names = metric_names(runs)
    axes = [Axes(run) for run in runs]
    charts = list(_charts(names))
    limit = _limit(runs, charts)
    groups: list[dict[str, Any]] = []
    for title, _ in GROUPS:
        group: dict[str, Any] = {"title": title, "charts": [], "constant": []}
        for name, parts in charts:
            if next(other for other, starts in GROUPS if parts[0].startswith(starts)) != title:
                continue
            if (value := _constant(runs, parts)) is not None:
                group["constant"].append([name, f"{value:.5g}"])
                continue
            lines = [
                {"run": index, **line}
                for index, run in enumerate(runs)
                if (line := _line(run, parts, axes[index], limit)) is not None
            ]
            group["charts"].append({"name": name, "band": len(parts) == 3, "lines": lines})
        if group["charts"] or group["constant"]:
            groups.append(group)
    return groups, axes


def extremes(run: Run, name: str) -> dict[str, Any] | None:
    """The last, the least and the greatest value of a metric, and their steps; None if the run has no value of it."""
    points = run.points(name)
    if not points:
        return None
    low, high = min(points, key=points.__getitem__), max(points, key=points.__getitem__)
    last = next(reversed(points))
    return {"last": (last, points[last]), "low": (low, points[low]), "high": (high, points[high])}


def short(value: float | None, digits: int = 5) -> float | int | None:
    """A number with few digits, whole if it can be: what goes into the page."""
    if value is None:
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def buckets(count: int, limit: int) -> list[range]:
    """Neighbours among `count` points put together, so that at most `limit` remain."""
    size = max(1, -(-count // limit))
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def _charts(names: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The charts, by what stands above each, with its metrics: one, or mean, min and max."""
    known = set(names)
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        base, _, last = name.rpartition("/")
        triple = (f"{base}/mean", f"{base}/min", f"{base}/max")
        if last in ("mean", "min", "max") and known.issuperset(triple):
            found[base] = triple
        else:
            found[name] = (name,)
    prefixes = [prefix for _, starts in GROUPS for prefix in starts]
    yield from sorted(found.items(), key=lambda item: [not item[1][0].startswith(prefix) for prefix in prefixes])


def _limit(runs: Sequence[Run], charts: Sequence[tuple[str, tuple[str, ...]]]) -> int:
    """How many points a series may have, for the page to keep its size."""
    counts = [(len(run.metrics.get(parts[0], {})), len(parts)) for run in runs for _, parts in charts]
    limit = POINTS
    while limit > 20 and sum(min(n, limit) * (3 if n > limit else width) for n, width in counts) > NUMBERS:
        limit = limit * 3 // 4
    return limit


def _constant(runs: Sequence[Run], parts: tuple[str, ...]) -> float | None:
    """The value of a metric that no run ever changed, if one was long enough to tell."""
    seen: set[float | None] = set()
    longest = 0
    for run in runs:
        for name in parts:
            column = run.metrics.get(name, {})
            seen.update(column.values())
            longest = max(longest, len(column))
        if len(seen) > 1:
            return None
    return next(iter(seen)) if longest > 2 else None


def _line(run: Run, parts: tuple[str, ...], axes: Axes, limit: int) -> dict[str, Any] | None:
    rows = list(run.metrics.get(parts[0], {}))
    if not rows:
        return None
    parted = buckets(len(rows), limit)
    middles = tuple(rows[part[len(part) // 2]] for part in parted)
    line: dict[str, Any] = {"axis": axes.add(middles)}
    names = parts if all(name in run.metrics for name in parts) else parts[:1]
    columns = [[run.metrics[name].get(row) for row in rows] for name in names]
    line["v"] = [short(_mean([columns[0][i] for i in part])) for part in parted]
    if len(columns) == 3 or len(parted) < len(rows):
        line["lo"] = [short(min(_known(columns[len(columns) // 2], part), default=None)) for part in parted]
        line["hi"] = [short(max(_known(columns[-1], part), default=None)) for part in parted]
    return line


def _known(values: Sequence[float | None], part: range) -> list[float]:
    return [value for i in part if (value := values[i]) is not None]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
