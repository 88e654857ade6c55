# vextract:template base/__package__/tracking/columns.py - edit freely
"""A step's metrics as the columns of a table, and as text."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .timing import AFTER_STEP, STEP_PHASES

Metrics = Mapping[str, float]


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        title: its header.
        names: metrics; the first that a step has is shown.
        form: from the value to its text.
        rank: which columns give way first where there is little room: those with the highest.
        may_be_zero: whether it is worth showing when it has been 0 all along.
    """

    title: str
    names: tuple[str, ...]
    form: Callable[[float], str]
    rank: int
    may_be_zero: bool = True


def _plain(digits: int) -> Callable[[float], str]:
    return lambda value: f"{value:.{digits}f}"


def _small(value: float) -> str:
    return f"{value:.1e}" if value and abs(value) < 1e-3 else f"{value:.4f}"


def _large(value: float) -> str:
    return f"{value / 1000:.1f}k" if value >= 10_000 else f"{value:.0f}"


def _seconds(value: float) -> str:
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


REWARD = ("critic/rewards/mean", "critic/score/mean")
COLUMNS = (
    Column("reward", REWARD, _plain(3), 0),
    Column("acc", ("reward/acc/mean",), _plain(3), 2),
    Column("val", ("val",), _plain(3), 1),
    Column("loss", ("train/loss",), _plain(4), 0),
    Column("val loss", ("val/loss",), _plain(4), 1),
    Column("KL", ("actor/kl_loss", "actor/reward_kl_penalty"), _small, 5, may_be_zero=False),
    Column("distill", ("actor/distillation/loss",), _small, 5),
    Column("entropy", ("actor/entropy",), _plain(3), 6),
    Column("clipped", ("actor/pg_clipfrac",), _small, 10, may_be_zero=False),
    Column("vf loss", ("critic/vf_loss",), _small, 7),
    Column("rm loss", ("reward_model/dpo_loss",), _small, 7),
    Column("rm acc", ("reward_model/dpo_acc_before", "reward_model/dpo_acc"), _plain(2), 8),
    Column("vf expl", ("critic/vf_explained_var",), _plain(2), 9),
    Column("no signal", ("critic/rewards/frac_zero_std",), _plain(2), 11, may_be_zero=False),
    Column("mismatch", ("training/rollout_log_probs_diff_mean",), _small, 12, may_be_zero=False),
    Column("length", ("response_length/mean",), _plain(1), 4),
    Column("tokens/s", ("perf/throughput",), _large, 8),
    Column("s/step", ("perf/time_per_step", "timing_s/step"), _seconds, 3),
)
BARS = "▁▂▃▄▅▆▇█"


def validation_score(metrics: Metrics) -> float | None:
    """Return the mean over data sources of what validation reports first: accuracy, or else reward."""
    scores = [value for name, value in metrics.items() if name.startswith("val-core/") and "/mean@" in name]
    return sum(scores) / len(scores) if scores else None


def values(metrics: Metrics) -> dict[str, float]:
    """Return a step's value for each column that it has one for, by the column's title."""
    val = validation_score(metrics)
    known = dict(metrics) if val is None else {**metrics, "val": val}
    found = {column.title: [known[name] for name in column.names if name in known] for column in COLUMNS}
    return {title: several[0] for title, several in found.items() if several}


def telling(steps: Iterable[Mapping[str, float]]) -> set[str]:
    """Return the titles of the columns that say something about these steps, whose `values` are given."""
    steps = list(steps)
    return {
        column.title
        for column in COLUMNS
        if any(column.title in step and (column.may_be_zero or step[column.title]) for step in steps)
    }


def cell(column: Column, step: Mapping[str, float]) -> str:
    """Return the text of a column for a step, whose `values` are given; empty where it has none."""
    value = step.get(column.title)
    return "" if value is None else column.form(value) if math.isfinite(value) else str(value)


def one_line(metrics: Metrics) -> str:
    """Return a step as a line of text: `reward 0.250  entropy 1.500  (gen 20 ms, update_actor 1.2 s)`."""
    step = values(metrics)
    titles = telling([step])
    texts = [f"{column.title} {cell(column, step)}" for column in COLUMNS if column.title in titles]
    times = phase_times(metrics, separator=", ")
    return "  ".join([*texts, *([f"({times})"] if times else [])])


def phase_times(metrics: Metrics, width: int | None = None, separator: str = "  ") -> str:
    """Return where a step's time went: `gen 9.6 s  reward 31 ms  ...`; the longest ones, if not all fit the width."""
    timed = ((phase, metrics.get(f"timing_s/{phase}")) for phase in (*STEP_PHASES, *AFTER_STEP))
    known = {phase: seconds for phase, seconds in timed if seconds is not None}
    shown = list(known)
    while True:
        text = separator.join(f"{phase} {duration(known[phase])}" for phase in shown)
        if not shown or width is None or len(text) <= width:
            return text
        shown.remove(min(shown, key=known.__getitem__))


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it: `31 ms`, `9.6 s`, `2 min 05 s`, `3 h 07 min`."""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def clock(seconds: float) -> str:
    """Return a time as on a clock: `0:31`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def sparkline(values: list[float], width: int = 40) -> str:
    """Return a small curve of the last values, on the scale from 0 (or the least of them) to the greatest."""
    shown = [value for value in values if math.isfinite(value)][-width:]
    if not shown:
        return ""
    low, high = min(0.0, *shown), max(shown)
    span = (high - low) or 1.0
    return "".join(BARS[round((value - low) / span * (len(BARS) - 1))] for value in shown)


def sample_line(generation: Mapping[str, Any]) -> str:
    """Return a sample on one line: `'37=' → '48'  score 1.00`."""
    shown = f"{generation.get('prompt')!r} → {generation.get('response')!r}"
    score = generation.get("score")
    return shown if score is None else f"{shown}  score {score:.2f}"
