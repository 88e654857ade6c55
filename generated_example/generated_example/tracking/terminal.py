# vextract:template base/__package__/tracking/terminal.py - edit freely
"""What a run looks like in a terminal: a table that updates in place, or one line per step where there is none.

First the metrics of a step as columns and as text; then the views that show them.
"""

import bdb
import contextlib
import logging
import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..output import say
from .timing import phases

Metrics = Mapping[str, float]
ROWS = 12
PER_SECOND = 4
BARS = "▁▂▃▄▅▆▇█"


class Column(NamedTuple):
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


def _small(value: float) -> str:
    return f"{value:.1e}" if value and abs(value) < 1e-3 else f"{value:.4f}"


def _large(value: float) -> str:
    return f"{value / 1000:.1f}k" if value >= 10_000 else f"{value:.0f}"


def _seconds(value: float) -> str:
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


REWARD = ("critic/rewards/mean", "critic/score/mean")
COLUMNS = (
    Column("reward", REWARD, "{:.3f}".format, 0),
    Column("acc", ("reward/acc/mean",), "{:.3f}".format, 2),
    Column("val", ("val",), "{:.3f}".format, 1),
    Column("loss", ("train/loss",), "{:.4f}".format, 0),
    Column("val loss", ("val/loss",), "{:.4f}".format, 1),
    Column("KL", ("actor/kl_loss", "actor/reward_kl_penalty"), _small, 5, may_be_zero=False),
    Column("distill", ("actor/distillation/loss",), _small, 5),
    Column("entropy", ("actor/entropy",), "{:.3f}".format, 6),
    Column("clipped", ("actor/pg_clipfrac",), _small, 10, may_be_zero=False),
    Column("vf loss", ("critic/vf_loss",), _small, 7),
    Column("rm loss", ("reward_model/dpo_loss",), _small, 7),
    Column("rm acc", ("reward_model/dpo_acc_before", "reward_model/dpo_acc"), "{:.2f}".format, 8),
    Column("vf expl", ("critic/vf_explained_var",), "{:.2f}".format, 9),
    Column("no signal", ("critic/rewards/frac_zero_std",), "{:.2f}".format, 11, may_be_zero=False),
    Column("mismatch", ("training/rollout_log_probs_diff_mean",), _small, 12, may_be_zero=False),
    Column("length", ("response_length/mean",), "{:.1f}".format, 4),
    Column("tokens/s", ("perf/throughput",), _large, 8),
    Column("s/step", ("perf/time_per_step", "timing_s/step"), _seconds, 3),
)
# What a step consists of, in its order, as upstream's timing_s/* calls it; then what comes after a step.
STEP_PHASES = (
    *("gen", "gen_max", "reward", "old_log_prob", "watch", "ref", "values", "teacher", "adv", "reward_model"),
    *("update_critic", "update_actor", "testing", "save_checkpoint"),
)


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
    times = phase_times(metrics)
    return "  ".join([*texts, *([f"({times})"] if times else [])])


def phase_times(metrics: Metrics) -> str:
    """Return where a step's time went: `gen 9.6 s, reward 31 ms`."""
    timed = {phase: metrics.get(f"timing_s/{phase}") for phase in STEP_PHASES}
    return ", ".join(f"{phase} {duration(spent)}" for phase, spent in timed.items() if spent is not None)


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


def sparkline(curve: Iterable[float]) -> str:
    """Return a small curve of some values, on the scale from 0 (or the least of them) to the greatest."""
    shown = [value for value in curve if math.isfinite(value)]
    low, high = min([0.0, *shown]), max([0.0, *shown])
    return "".join(BARS[round((value - low) / ((high - low) or 1.0) * (len(BARS) - 1))] for value in shown)


def make_view(title: str, total_steps: int, start_step: int = 0, *, quiet: bool = False) -> "QuietView":
    """Return the table where it can be drawn; lines where not.

    Lines are for a pipe or a log file, a dumb terminal, one that cannot show the bars, a notebook's `!` command (whose
    terminal cannot go back up), and for pdb.
    """
    if quiet:
        return QuietView()
    if sys.stdout is not None and sys.stdout.isatty() and sys.gettrace() is None and "JPY_PARENT_PID" not in os.environ:
        from rich.console import Console

        console = Console()
        if console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf"):
            return LiveView(console, title, total_steps, start_step)
    return LineView(total_steps)


class QuietView:
    """Shows a run to a person: nothing but messages."""

    def row(self, step: int, metrics: Metrics) -> None:
        pass

    def sample(self, generation: Mapping[str, Any]) -> None:
        pass

    def message(self, text: str) -> None:
        try:
            say(text)
        except UnicodeEncodeError:  # a log file in ASCII, say
            say(text.encode("ascii", "backslashreplace").decode())

    def close(self) -> None:
        pass


class LineView(QuietView):
    """One line of text per step."""

    def __init__(self, total_steps: int) -> None:
        self._total = total_steps

    def row(self, step: int, metrics: Metrics) -> None:
        self.message(f"step {step}/{self._total}  {one_line(metrics)}".rstrip())


class LiveView(LineView):
    """A table of the last steps that updates in place; what is printed or logged meanwhile appears above it.

    A thread draws it; the run never waits for that. It steps aside for a debugger: from there on, lines.
    """

    def __init__(self, console: Any, title: str, total_steps: int, start_step: int) -> None:
        from rich.live import Live

        super().__init__(total_steps)
        self._console, self._title, self._first, self._step = console, title, start_step, start_step
        self._metrics, self._sample, self._titles = dict[str, float](), "", set[str]()
        self._rows: deque[tuple[int, dict[str, float]]] = deque(maxlen=ROWS)
        self._rewards: deque[float] = deque(maxlen=40)
        self._begin = self._stepped = time.monotonic()
        streams = {id(stream): name for name in ("stdout", "stderr") if (stream := getattr(sys, name))}
        self._live = Live(
            get_renderable=self._render,
            console=console,
            refresh_per_second=PER_SECOND,
            vertical_overflow="crop",
            redirect_stderr=sys.stderr.isatty(),
        )
        self._live.start(refresh=True)
        loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
        handlers = {handler for logger in loggers for handler in getattr(logger, "handlers", [])}
        self._handlers: list[tuple[Any, Any]] = []  # those that write above the table, and where they did before
        for handler in handlers:
            stream = getattr(handler, "stream", None)
            if id(stream) in streams:
                self._handlers.append((handler, stream))
                handler.stream = getattr(sys, streams[id(stream)])
        self._debugger, bdb.Bdb.set_trace = bdb.Bdb.set_trace, self._stopping(bdb.Bdb.set_trace)  # type: ignore[method-assign]
        live_views.append(self)

    def row(self, step: int, metrics: Metrics) -> None:
        """Add a step. The thread draws it: with short steps not every one."""
        if self not in live_views:
            super().row(step, metrics)
            return
        known = values(metrics)
        self._rows.append((step, known))
        self._titles |= telling([known])
        self._rewards.extend([metrics[name] for name in REWARD if name in metrics][:1])
        self._metrics = dict(metrics) if phase_times(metrics) else self._metrics
        self._step, self._stepped = step, time.monotonic()

    def sample(self, generation: Mapping[str, Any]) -> None:
        score = generation.get("score")
        shown = f"{generation.get('prompt')!r} → {generation.get('response')!r}"
        self._sample = shown if score is None else f"{shown}  score {score:.2f}"

    def close(self) -> None:
        """Leave the last table where it is."""
        if self not in live_views:
            return
        live_views.remove(self)
        bdb.Bdb.set_trace = self._debugger  # type: ignore[method-assign]
        with contextlib.suppress(OSError):  # the terminal may be gone
            sys.stdout.flush()  # what was printed without an end of line
            self._live.stop()
        self._give_back()

    def _give_back(self) -> None:
        for handler, stream in self._handlers:
            handler.stream = stream

    def leave(self) -> None:
        """Let a process that was forked print past the table: a lock that it would need may be held for ever."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            setattr(sys, name, getattr(stream, "rich_proxied_file", stream))
        self._give_back()

    def _stopping(self, set_trace: Callable[..., Any]) -> Callable[..., Any]:
        """Stop in pdb, as its `set_trace` does, after the table has been ended and the terminal given back."""

        def stop_and_trace(debugger: Any, frame: Any = None, *args: Any, **kwargs: Any) -> Any:
            self.close()
            output: Any = getattr(debugger, "stdout", None)
            debugger.stdout = getattr(output, "rich_proxied_file", output)
            del output  # or the debugger would stop in its finalizer
            return set_trace(debugger, frame or sys._getframe(1), *args, **kwargs)

        return stop_and_trace

    def _render(self) -> Any:
        """Return what to draw now. An exception would end the thread, and the run must not notice."""
        from rich.console import Group
        from rich.text import Text

        try:
            now, parts = time.monotonic(), [self._title] if self._title else []
            parts += [f"step {self._step}/{self._total}", duration(now - self._begin)]
            if self._first < self._step < self._total:
                each = (self._stepped - self._begin) / (self._step - self._first)
                parts.append(f"{duration(max(0.0, each * (self._total - self._step) - now + self._stepped))} left")
            below = {"reward": sparkline(self._rewards), "time": phase_times(self._metrics), "sample": self._sample}
            lines = ["  ".join(parts), *(f"{name:8}{text}" for name, text in below.items() if text)]
            under_way = {phase.name: phase for phase in phases() if phase.name != "step" and self in live_views}
            for depth, phase in enumerate(under_way.values()):
                text = f"{'  ' * depth}{phase.name:14}{duration(now - phase.began):>10}"
                if phase.total > 1:
                    bar = "━" * round(20 * min(1, phase.done / phase.total))
                    text += f"  {phase.done}/{phase.total} {phase.unit}  {bar}"
                lines.append(text)
            shown = [Text(line, no_wrap=True, overflow="crop") for line in lines]
            table = [self._columns()] if self._rows else []
            return Group(shown[0], *table, *shown[1:])
        except Exception as error:
            return f"cannot draw the table: {type(error).__name__}"

    def _columns(self) -> Any:
        """Return the table, without the least important columns if they do not fit."""
        from rich import box
        from rich.table import Table

        columns = [column for column in COLUMNS if column.title in self._titles]
        rows, texts = list(self._rows), dict[str, list[str]]()
        for column in columns:
            texts[column.title] = [cell(column, known) for _, known in rows]
        widths = {title: max(map(len, (title, *shown))) + 2 for title, shown in texts.items()}
        while columns and sum(widths[column.title] for column in columns) > self._console.width - 10:
            columns.remove(max(columns, key=lambda column: column.rank))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("step", justify="right", style="bold", no_wrap=True)
        for column in columns:
            style = {"reward": "green", "val": "cyan"}.get(column.title)
            table.add_column(column.title, justify="right", style=style, no_wrap=True)
        for number, (step, _) in enumerate(rows):
            table.add_row(str(step), *(texts[column.title][number] for column in columns))
        return table


live_views: list[LiveView] = []


def _leave_in_child() -> None:
    for view in live_views:
        view.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)
