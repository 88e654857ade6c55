"""Choose the charts of a page, and thin out long series."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from extractor.usecases.report.runs import RecordedRun

# In the order of the page, and of the charts in a group; a metric belongs to the first that has a prefix of its name.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Reward", ("critic/rewards/mean", "critic/score/", "reward/", "critic/rewards/", "train/")),
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
# The subtitles of charts.
NOTES = {
    "critic/rewards/frac_zero_std": "Share of prompts whose responses all have the same reward: GRPO and its relatives "
    "learn nothing from them.",
    "train/kept_groups": "Share of the prompts drawn whose responses differ in reward: the others are left out.",
    "actor/pg_clipfrac": "Share of tokens whose ratio is clipped.",
    "actor/ppo_kl": "How far the policy is from the one that wrote the responses.",
    "actor/grad_norm": "Before clipping.",
    "training/rollout_log_probs_diff_mean": "How far the engine's log-probabilities of the sampled tokens are from the "
    "trainer's: local.rollout.mismatch.",
    "response_length/clip_ratio": "Share of responses that reach the longest length, and may be cut off.",
    "critic/vf_explained_var": "1: the critic predicts the returns exactly; 0 or less: no better than their mean.",
}
POINTS = 1000  # of a series, at most
NUMBERS = 300_000  # on a page, at most: about 2 MB


def group_curves(runs: Sequence[RecordedRun]) -> list[dict[str, Any]]:
    """Return everything that the page draws as curves.

    Returns:
        Groups of charts, {title, charts: [{name, band, lines, notes, gaps}]}. Metrics named
        .../mean, .../min and .../max make one chart: the means, in a band. `notes` and `gaps` are sentences, the latter
        about values that are not finite. A line is {run, rows, v, lo, hi, per}: `v` holds values; where a series was
        too long, means over the `per` steps that one point stands for, with the least and the greatest of them in `lo`
        and `hi`; `rows` counts the run's rows.
    """
    known = {name for run in runs for name, column in run.metrics.items() if set(column.values()) != {None}}
    parted = _list_charts(known)
    limit = max(20, min(POINTS, NUMBERS // max(3 * len(runs) * len(parted), 1)))
    groups: dict[str, dict[str, Any]] = {title: {"title": title, "charts": []} for title, _ in GROUPS}
    for name, parts in parted:
        group = groups[next(title for title, starts in GROUPS if parts[0].startswith(starts))]
        lines = [
            {"run": index, **line}
            for index, run in enumerate(runs)
            if (line := _draw_line(run, parts, limit)) is not None
        ]
        notes = [NOTES[note] for note in (name, parts[0]) if note in NOTES][:1]
        chart = {"name": name, "band": len(parts) == 3, "lines": lines, "notes": notes}
        group["charts"].append({**chart, "gaps": _describe_gaps(runs, parts)})
    return [group for group in groups.values() if group["charts"]]


def shorten(value: float | None, digits: int = 5) -> float | int | None:
    """Round a number for the page, to an int if whole."""
    if value is None:
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _list_charts(known: AbstractSet[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return charts as (title, metrics): one metric or mean, min, max."""
    charts: dict[str, tuple[str, ...]] = {}
    for name in sorted(known):
        base, _, last = name.rpartition("/")
        triple = (f"{base}/mean", f"{base}/min", f"{base}/max")
        if last in ("mean", "min", "max") and known >= {*triple}:
            charts[base] = triple
        else:
            charts[name] = (name,)
    prefixes = [prefix for _, starts in GROUPS for prefix in starts]
    return sorted(charts.items(), key=lambda item: [not item[1][0].startswith(prefix) for prefix in prefixes])


def _describe_gaps(runs: Sequence[RecordedRun], parts: Sequence[str]) -> list[str]:
    """Return notes on values that are not finite, by run."""
    said = []
    for run in runs:
        rows = sorted({row for name in parts for row, value in run.metrics.get(name, {}).items() if value is None})
        if rows:
            count = "1 value is" if len(rows) == 1 else f"{len(rows)} values are"
            where = f"{run.name}: " if len(runs) > 1 else ""
            said.append(f"{where}{count} not finite, the first at step {run.rows[rows[0]]['step']}.")
    return said


def _draw_line(run: RecordedRun, parts: tuple[str, ...], limit: int) -> dict[str, Any] | None:
    rows = list(run.metrics.get(parts[0], {}))
    if not rows:
        return None
    size = -(-len(rows) // limit)
    parted = [range(start, min(start + size, len(rows))) for start in range(0, len(rows), size)]
    line: dict[str, Any] = {"rows": [rows[part[len(part) // 2]] for part in parted]}
    names = parts if all(name in run.metrics for name in parts) else parts[:1]
    columns = [[run.metrics[name].get(row) for row in rows] for name in names]
    known = [_list_known(columns[0], part) for part in parted]
    line["v"] = [shorten(sum(values) / len(values)) if values else None for values in known]
    if len(parted) < len(rows):
        line["per"] = len(parted[0])
    if len(columns) == 3 or len(parted) < len(rows):
        line["lo"] = [shorten(min(_list_known(columns[len(columns) // 2], part), default=None)) for part in parted]
        line["hi"] = [shorten(max(_list_known(columns[-1], part), default=None)) for part in parted]
    return line


def _list_known(values: Sequence[float | None], part: range) -> list[float]:
    return [value for i in part if (value := values[i]) is not None]
