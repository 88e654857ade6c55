# vextract:template
"""What a run looks like in a terminal: a table that updates in place, or one line per step where there is none."""

import math
import os
import pdb
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class View(Protocol):
    """Shows a run to a person."""

    def row(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def sample(self, generation: Mapping[str, Any]) -> None: ...

    def message(self, text: str) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Column:
    """A column of the table: the first of `names` that a step has is shown."""

    title: str
    names: tuple[str, ...]
    form: Callable[[float], str]


def _plain(digits: int) -> Callable[[float], str]:
    return lambda value: f"{value:.{digits}f}"


def _small(value: float) -> str:
    return f"{value:.1e}" if value and abs(value) < 1e-3 else f"{value:.4f}"


def _large(value: float) -> str:
    return f"{value / 1000:.1f}k" if value >= 10_000 else f"{value:.0f}"


COLUMNS = (
    Column("reward", ("critic/rewards/mean", "critic/score/mean"), _plain(3)),
    Column("acc", ("reward/acc/mean",), _plain(3)),
    Column("val", ("val",), _plain(3)),
    Column("KL", ("actor/kl_loss", "actor/reward_kl_penalty", "actor/ppo_kl"), _small),
    Column("entropy", ("actor/entropy",), _plain(3)),
    Column("length", ("response_length/mean",), _plain(1)),
    Column("tokens/s", ("perf/throughput",), _large),
    Column("s/step", ("perf/time_per_step", "timing_s/step"), _plain(2)),
)
PHASES = ("gen", "reward", "old_log_prob", "ref", "values", "adv", "update_critic", "update_actor", "testing")
ROWS = 12
BARS = "▁▂▃▄▅▆▇█"


def make_view(title: str, total_steps: int, start_step: int = 0, *, quiet: bool = False) -> View:
    """The table where it can be drawn; lines where not: in a pipe or a log file, on a dumb terminal, under pdb."""
    if quiet:
        return QuietView()
    if sys.stdout.isatty() and sys.gettrace() is None:
        from rich.console import Console

        console = Console()
        if console.is_terminal and not console.is_dumb_terminal:
            return LiveView(console, title, total_steps, start_step)
    return LineView(total_steps)


def validation_score(metrics: Mapping[str, float]) -> float | None:
    """The mean over data sources of what validation reports first: accuracy, or else reward."""
    scores = [value for name, value in metrics.items() if name.startswith("val-core/") and "/mean@" in name]
    return sum(scores) / len(scores) if scores else None


def cells(metrics: Mapping[str, float]) -> list[str]:
    """A step's metrics as the text of each column, empty where there is no value."""
    val = validation_score(metrics)
    known = dict(metrics) if val is None else {**metrics, "val": val}
    texts = []
    for column in COLUMNS:
        value = next((known[name] for name in column.names if name in known), None)
        texts.append("" if value is None else column.form(value) if math.isfinite(value) else str(value))
    return texts


def phase_times(metrics: Mapping[str, float]) -> str:
    """Where a step's time went, in milliseconds: `gen 23  reward 3  ...`."""
    times = [(phase, metrics.get(f"timing_s/{phase}")) for phase in PHASES]
    return "  ".join(f"{phase} {value * 1000:.0f}" for phase, value in times if value is not None)


def sparkline(values: list[float], width: int = 40) -> str:
    """A small curve of the last values, on the scale from 0 (or the least of them) to the greatest."""
    shown = [value for value in values if math.isfinite(value)][-width:]
    if not shown:
        return ""
    low, high = min(0.0, *shown), max(shown)
    span = (high - low) or 1.0
    return "".join(BARS[round((value - low) / span * (len(BARS) - 1))] for value in shown)


class QuietView:
    """Shows nothing but messages."""

    def row(self, step: int, metrics: Mapping[str, float]) -> None:
        pass

    def sample(self, generation: Mapping[str, Any]) -> None:
        pass

    def message(self, text: str) -> None:
        print(text, flush=True)

    def close(self) -> None:
        pass


class LineView(QuietView):
    """One line of text per step."""

    def __init__(self, total_steps: int) -> None:
        self._total = total_steps

    def row(self, step: int, metrics: Mapping[str, float]) -> None:
        texts = [f"{column.title} {text}" for column, text in zip(COLUMNS, cells(metrics), strict=True) if text]
        times = phase_times(metrics)
        self.message("  ".join([f"step {step}/{self._total}", *texts, *([f"({times} ms)"] if times else [])]))


class LiveView:
    """A table of the last steps that updates in place; what is printed meanwhile appears above it.

    It redraws only when a step ends, without a thread, and steps aside for `breakpoint()`: from there on, lines.
    """

    def __init__(self, console: Any, title: str, total_steps: int, start_step: int) -> None:
        from rich.live import Live

        self._title, self._total, self._first = title, total_steps, start_step
        self._rows: deque[tuple[int, list[str]]] = deque(maxlen=max(3, min(ROWS, console.height - 9)))
        self._rewards: deque[float] = deque(maxlen=400)
        self._step, self._phases, self._sample = start_step, "", ""
        self._begin = time.monotonic()
        self._lines: LineView | None = None
        self._live = Live(self._render(), console=console, auto_refresh=False, vertical_overflow="crop")
        self._live.start()
        self._breakpointhook = sys.breakpointhook
        sys.breakpointhook = self._step_aside

    def row(self, step: int, metrics: Mapping[str, float]) -> None:
        if self._lines is not None:
            return self._lines.row(step, metrics)
        self._step = step
        self._rows.append((step, cells(metrics)))
        reward = metrics.get("critic/rewards/mean", metrics.get("critic/score/mean"))
        if reward is not None:
            self._rewards.append(reward)
        self._phases = phase_times(metrics) or self._phases
        return self._live.update(self._render(), refresh=True)

    def sample(self, generation: Mapping[str, Any]) -> None:
        score = generation.get("score")
        shown = f"{generation.get('prompt')!r} → {generation.get('response')!r}"
        self._sample = shown if score is None else f"{shown}  score {score:.2f}"

    def message(self, text: str) -> None:
        print(text, flush=True)  # rich redirects it to above the table

    def close(self) -> None:
        if self._lines is None:
            self._stop()

    def _stop(self) -> None:
        sys.breakpointhook = self._breakpointhook
        self._live.stop()
        self._lines = LineView(self._total)

    def _step_aside(self, *args: Any, **kwargs: Any) -> Any:
        self._stop()
        if self._breakpointhook is sys.__breakpointhook__ and not os.environ.get("PYTHONBREAKPOINT"):
            return pdb.Pdb().set_trace(sys._getframe(1))  # in the frame that called breakpoint(), not in this one
        return self._breakpointhook(*args, **kwargs)

    def _render(self) -> Any:
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, title=Text(self._headline()), title_justify="left", pad_edge=False)
        table.add_column("step", justify="right", style="bold", no_wrap=True)
        used = [i for i in range(len(COLUMNS)) if any(texts[i] for _, texts in self._rows)]
        for index in used:
            style = {"reward": "green", "val": "cyan"}.get(COLUMNS[index].title)
            table.add_column(COLUMNS[index].title, justify="right", style=style, no_wrap=True)
        for step, texts in self._rows:
            table.add_row(str(step), *(texts[index] for index in used))
        below = []
        if self._rewards:
            below.append(Text(f"reward  {sparkline(list(self._rewards))}", style="green"))
        if self._phases:
            below.append(Text(f"ms      {self._phases}", style="dim"))
        if self._sample:
            below.append(Text(f"sample  {self._sample}", style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(table, *below)

    def _headline(self) -> str:
        elapsed = time.monotonic() - self._begin
        done = self._step - self._first
        parts = [self._title, f"step {self._step}/{self._total}", _clock(elapsed)]
        if done > 0 and self._step < self._total:
            parts.append(f"{_clock(elapsed / done * (self._total - self._step))} left")
        return "  ".join(part for part in parts if part)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
