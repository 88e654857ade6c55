# vextract:template
"""The curves of a run as one picture. matplotlib is imported only when there is something to draw."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

Rows = Sequence[dict[str, Any]]

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#3b6fb6", "#e08214", "#4d9a51", "#c0504d", "#7f5fa8", "#8a8a8a"
PHASES = {
    "gen": BLUE,
    "gen_max": "#86b4e3",
    "reward": GREEN,
    "old_log_prob": ORANGE,
    "watch": "#f0bf86",
    "ref": PURPLE,
    "values": "#b39ddb",
    "teacher": "#a08a5c",
    "adv": GREY,
    "reward_model": "#2f8f83",
    "update_critic": "#e6a5a3",
    "update_actor": RED,
}

KL = {
    "actor/ppo_kl": "from the old policy",
    "actor/kl_loss": "from the reference (loss)",
    "actor/reward_kl_penalty": "from the reference (reward)",
}


def draw_curves(rows: Rows, path: Path, title: str = "") -> None:
    """Draw against the step what a run has of reward, accuracy, KL, entropy, value loss, response length, step time.

    Args:
        rows: the rows of metrics.jsonl.
        path: the PNG to write.
        title: stands above the panels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [panel for panel, names in PANELS.items() if any(_says_something(rows, name) for name in names)]
    panels = panels or [_reward]
    lines = _rows_of(len(panels))
    figure = Figure(figsize=(13 / 3 * lines[0], 3.5 * len(lines)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, color="#555555")
    grid = figure.add_gridspec(len(lines), math.lcm(*lines))
    places = [grid[down, slice(*_share(grid.ncols, at, many))] for down, many in enumerate(lines) for at in range(many)]
    for place, panel in zip(places, panels, strict=True):
        axis = figure.add_subplot(place)
        panel(axis, rows)
        _dress(axis)
    scratch = path.with_suffix(".tmp")
    figure.savefig(scratch, format="png")
    scratch.replace(path)


def _rows_of(panels: int) -> list[int]:
    """Share panels out over rows of up to three, each as wide as the picture, so that no place stays empty."""
    down = -(-panels // 3)
    return [(panels + down - 1 - row) // down for row in range(down)]


def _share(columns: int, at: int, many: int) -> tuple[int, int]:
    return columns // many * at, columns // many * (at + 1)


def series(rows: Rows, name: str) -> tuple[list[int], list[float]]:
    """Return the steps with a finite value of a metric, and the values. Of a step logged twice, the last counts."""
    values = {row["step"]: row[name] for row in rows if row.get(name) is not None and math.isfinite(row[name])}
    steps = sorted(values)
    return steps, [values[step] for step in steps]


def smooth(values: Sequence[float], reach: int = 5) -> list[float]:
    """Average each value and its neighbours up to `reach` away: unlike a trailing average, this does not lag."""
    return [fmean(values[max(0, i - reach) : i + reach + 1]) for i in range(len(values))]


def _says_something(rows: Rows, name: str) -> bool:
    """Tell whether a metric was recorded, or one whose name begins so; a KL that is 0 all along says nothing."""
    names = {other for row in rows for other in row if other == name or (name.endswith("/") and other.startswith(name))}
    values = [value for other in names for value in series(rows, other)[1]]
    return any(values) if name in KL else bool(values)


def _line(axis: Any, rows: Rows, name: str, color: str, label: str) -> bool:
    steps, values = series(rows, name)
    if not steps:
        return False
    many = len(steps) > 20
    dot = "o" if len(steps) == 1 else ""  # a line through one point is none
    axis.plot(
        steps,
        values,
        dot,
        linestyle="-",
        color=color,
        alpha=0.3 if many else 1.0,
        linewidth=1,
        label=None if many else label,
    )
    if many:
        axis.plot(steps, smooth(values), color=color, linewidth=1.8, label=label)
    return True


def _reward(axis: Any, rows: Rows) -> None:
    axis.set_title("reward")
    name = "critic/rewards" if series(rows, "critic/rewards/mean")[0] else "critic/score"
    low, high = series(rows, f"{name}/min"), series(rows, f"{name}/max")
    if low[0] and low[0] == high[0]:
        axis.fill_between(low[0], low[1], high[1], color=BLUE, alpha=0.08, linewidth=0, label="min to max")
    _line(axis, rows, f"{name}/mean", BLUE, "mean")


def _accuracy(axis: Any, rows: Rows) -> None:
    axis.set_title("accuracy")
    _line(axis, rows, "reward/acc/mean", BLUE, "training, sampled")
    names = sorted({name for row in rows for name in row if name.startswith("val-core/") and "/mean@" in name})
    for name, color in zip(names, (ORANGE, GREEN, PURPLE, RED) * len(names), strict=False):
        steps, values = series(rows, name)
        source = name.removeprefix("val-core/").rsplit("/", 2)[0]
        axis.plot(steps, values, color=color, marker="o", markersize=4, linewidth=1.5, label=f"validation, {source}")
    axis.set_ylim(-0.03, 1.03)


def _kl(axis: Any, rows: Rows) -> None:
    axis.set_title("KL divergence")
    for (name, label), color in zip(KL.items(), (BLUE, ORANGE, GREEN), strict=True):
        if _says_something(rows, name):
            _line(axis, rows, name, color, label)


def _entropy(axis: Any, rows: Rows) -> None:
    axis.set_title("entropy")
    _line(axis, rows, "actor/entropy", PURPLE, "per token, nats")
    axis.set_ylim(bottom=0)


def _value_loss(axis: Any, rows: Rows) -> None:
    axis.set_title("value loss")
    _line(axis, rows, "critic/vf_loss", RED, "critic")
    axis.set_ylim(bottom=0)


def _length(axis: Any, rows: Rows) -> None:
    axis.set_title("response length, tokens")
    low, high = series(rows, "response_length/min"), series(rows, "response_length/max")
    if low[0] and low[0] == high[0]:
        axis.fill_between(low[0], low[1], high[1], color=GREEN, alpha=0.1, linewidth=0, label="min to max")
    _line(axis, rows, "response_length/mean", GREEN, "mean")
    axis.set_ylim(bottom=0)


def _time(axis: Any, rows: Rows) -> None:
    axis.set_title("time per step, s")
    steps = series(rows, "timing_s/step")[0] or series(rows, "perf/time_per_step")[0]
    by_step = {row["step"]: row for row in rows}
    layers = []
    for phase, color in PHASES.items():
        values = [by_step[step].get(f"timing_s/{phase}") or 0.0 for step in steps]
        if any(values):
            layers.append((phase, color, values))
    if layers:
        if len(steps) == 1:  # an area needs some width
            steps, layers = [steps[0], steps[0] + 1], [(phase, color, values * 2) for phase, color, values in layers]
        axis.stackplot(
            steps,
            *[values for _, _, values in layers],
            colors=[color for _, color, _ in layers],
            labels=[phase for phase, _, _ in layers],
            linewidth=0,
            alpha=0.85,
        )
        # The first step includes warm-up, and some include validation: scale the axis to the usual ones.
        totals = sorted(sum(values[i] for _, _, values in layers) for i in range(len(steps)))
        axis.set_ylim(0, 1.5 * totals[int(0.95 * (len(totals) - 1))])
    else:
        _line(axis, rows, "perf/time_per_step", GREY, "step")


def _dress(axis: Any) -> None:
    axis.set_xlabel("step")
    axis.locator_params(axis="x", integer=True)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.title.set_fontweight("bold")
    axis.margins(x=0.01)
    if axis.get_legend_handles_labels()[0]:
        columns = 3 if len(axis.get_legend_handles_labels()[0]) > 3 else 1
        axis.legend(frameon=False, fontsize=8, loc="upper right" if columns > 1 else "best", ncols=columns)
    else:
        axis.text(0.5, 0.5, "not recorded", ha="center", va="center", transform=axis.transAxes, color=GREY)


# What is drawn, and the metrics of which at least one must have been recorded.
PANELS = {
    _reward: ("critic/rewards/mean", "critic/score/mean"),
    _accuracy: ("reward/acc/mean", "val-core/"),
    _kl: tuple(KL),
    _entropy: ("actor/entropy",),
    _value_loss: ("critic/vf_loss",),
    _length: ("response_length/mean",),
    _time: ("perf/time_per_step", "timing_s/step"),
}
