# vextract:template base/__package__/tracking/terminal.py - edit freely
"""What a run looks like in a terminal: one line per step."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ..output import say

Metrics = Mapping[str, float]


# Title of each value of a step, the most important one first: its form, and metrics, of which the first counts.
COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "reward": ("{:.3f}", ("critic/rewards/mean", "critic/score/mean")),
    "val": ("{:.3f}", ("val",)),
    "loss": ("{:.4f}", ("train/loss",)),
    "val loss": ("{:.4f}", ("val/loss",)),
    "acc": ("{:.3f}", ("reward/acc/mean",)),
    "s/step": ("{:.2f}", ("perf/time_per_step", "timing_s/step")),
    "length": ("{:.1f}", ("response_length/mean",)),
    "KL": ("{:.3g}", ("actor/kl_loss", "actor/reward_kl_penalty")),
    "entropy": ("{:.3f}", ("actor/entropy",)),
    "vf loss": ("{:.3g}", ("critic/vf_loss",)),
    "tokens/s": ("{:.0f}", ("perf/throughput",)),
    "clipped": ("{:.3g}", ("actor/pg_clipfrac",)),
    "no signal": ("{:.2f}", ("critic/rewards/frac_zero_std",)),
}


def validation_score(metrics: Metrics) -> float | None:
    """Return the mean over data sources of what validation reports first: accuracy, or else reward."""
    scores = [value for name, value in metrics.items() if name.startswith("val-core/") and "/mean@" in name]
    return sum(scores) / len(scores) if scores else None


def cells(metrics: Metrics) -> dict[str, str]:
    """Return a step's values as text, by the titles of the columns that it has something for."""
    score = validation_score(metrics)
    known = dict(metrics) if score is None else {**metrics, "val": score}
    values = {title: [known[name] for name in names if name in known] for title, (_, names) in COLUMNS.items()}
    return {title: COLUMNS[title][0].format(found[0]) for title, found in values.items() if found}


def one_line(metrics: Metrics) -> str:
    """Return a step as a line of text: `reward 0.250  entropy 1.500  (gen 20 ms, update_actor 1.2 s)`."""
    times = phase_times(metrics)
    texts = [f"{title} {text}" for title, text in cells(metrics).items()]
    return "  ".join([*texts, *([f"({times})"] if times else [])])


def phase_times(metrics: Metrics) -> str:
    """Return where a step's time went: `gen 9.6 s, reward 31 ms`."""
    timed = {name.removeprefix("timing_s/"): spent for name, spent in metrics.items() if name.startswith("timing_s/")}
    return ", ".join(f"{phase} {duration(spent)}" for phase, spent in timed.items() if phase != "step")


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it: `31 ms`, `9.6 s`, `0:02:05`."""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 59.95 else str(timedelta(seconds=round(seconds)))


def make_view(title: str, total_steps: int, start_step: int = 0, *, quiet: bool = False) -> "LineView":
    """Return a view of a run; one that is quiet shows nothing but messages."""
    if not quiet:
        from .live import LiveView, drawing_console

        if (console := drawing_console()) is not None:
            return LiveView(console, title, total_steps, start_step)
    return LineView(total_steps, quiet=quiet)


class LineView:
    """Shows a run to a person: one line of text per step, and messages; where it is quiet, only these."""

    def __init__(self, total_steps: int, *, quiet: bool = False) -> None:
        self._total, self._quiet = total_steps, quiet

    def row(self, step: int, metrics: Metrics) -> None:
        if not self._quiet:
            self.message(f"step {step}/{self._total}  {one_line(metrics)}".rstrip())

    def sample(self, generation: Mapping[str, Any]) -> None:
        pass

    def message(self, text: str) -> None:
        say(text)

    def close(self) -> None:
        pass
