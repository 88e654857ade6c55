# vextract:template base/__package__/tracking/terminal.py - edit freely
"""What a run looks like in a terminal: a table that updates in place, or one line per step where there is none."""

import bdb
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from ..output import say
from . import phases

Metrics = Mapping[str, float]


class Column(NamedTuple):
    """A column of the table: its header, the form of its values, and metrics, of which the first that is there counts.

    Where there is little room, columns of a high `rank` give way first. One that `tells` shows no zeros.
    """

    title: str
    rank: int
    form: str
    names: tuple[str, ...]
    tells: bool = False


REWARD = ("critic/rewards/mean", "critic/score/mean")
COLUMNS = (
    Column("reward", 0, "{:.3f}", REWARD),
    Column("acc", 2, "{:.3f}", ("reward/acc/mean",)),
    Column("val", 1, "{:.3f}", ("val",)),
    Column("loss", 0, "{:.4f}", ("train/loss",)),
    Column("val loss", 1, "{:.4f}", ("val/loss",)),
    Column("KL", 5, "{:.3g}", ("actor/kl_loss", "actor/reward_kl_penalty"), tells=True),
    Column("distill", 5, "{:.3g}", ("actor/distillation/loss",)),
    Column("entropy", 6, "{:.3f}", ("actor/entropy",)),
    Column("clipped", 10, "{:.3g}", ("actor/pg_clipfrac",), tells=True),
    Column("vf loss", 7, "{:.3g}", ("critic/vf_loss",)),
    Column("rm loss", 7, "{:.3g}", ("reward_model/dpo_loss",)),
    Column("rm acc", 8, "{:.2f}", ("reward_model/dpo_acc_before", "reward_model/dpo_acc")),
    Column("vf expl", 9, "{:.2f}", ("critic/vf_explained_var",)),
    Column("no signal", 11, "{:.2f}", ("critic/rewards/frac_zero_std",), tells=True),
    Column("mismatch", 12, "{:.3g}", ("training/rollout_log_probs_diff_mean",), tells=True),
    Column("length", 4, "{:.1f}", ("response_length/mean",)),
    Column("tokens/s", 8, "{:.0f}", ("perf/throughput",)),
    Column("s/step", 3, "{:.2f}", ("perf/time_per_step", "timing_s/step")),
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


def cells(metrics: Metrics) -> dict[str, str]:
    """Return a step's values as text, by the titles of the columns that it has something for."""
    score = validation_score(metrics)
    known = dict(metrics) if score is None else {**metrics, "val": score}
    found = {}
    for column in COLUMNS:
        value = next((known[name] for name in column.names if name in known), None)
        if value or (value is not None and not column.tells):
            found[column.title] = column.form.format(value)
    return found


def one_line(metrics: Metrics) -> str:
    """Return a step as a line of text: `reward 0.250  entropy 1.500  (gen 20 ms, update_actor 1.2 s)`."""
    times = phase_times(metrics)
    texts = [f"{title} {text}" for title, text in cells(metrics).items()]
    return "  ".join([*texts, *([f"({times})"] if times else [])])


def phase_times(metrics: Metrics) -> str:
    """Return where a step's time went: `gen 9.6 s, reward 31 ms`."""
    timed = {phase: metrics.get(f"timing_s/{phase}") for phase in STEP_PHASES}
    return ", ".join(f"{phase} {duration(spent)}" for phase, spent in timed.items() if spent is not None)


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it: `31 ms`, `9.6 s`, `0:02:05`."""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 59.95 else str(timedelta(seconds=round(seconds)))


def make_view(title: str, total_steps: int, start_step: int = 0, *, quiet: bool = False) -> "QuietView":
    """Return the table where it can be drawn; lines where not.

    Lines are for a pipe or a log file, a dumb terminal, one without box characters, a notebook's `!` command (whose
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
    """A table of the last steps that updates in place; what is printed meanwhile appears above it.

    A thread draws it; the run never waits for that. It steps aside for a debugger: from there on, lines.
    """

    def __init__(self, console: Any, title: str, total_steps: int, start_step: int) -> None:
        from rich.live import Live

        super().__init__(total_steps)
        self._console, self._title, self._first, self._step = console, title, start_step, start_step
        self._rows: deque[tuple[int, dict[str, str]]] = deque(maxlen=12)
        self._times, self._sample, self._titles = "", "", set[str]()
        self._begin = self._stepped = time.monotonic()
        self._debugger, bdb.Bdb.set_trace = bdb.Bdb.set_trace, self._stopping(bdb.Bdb.set_trace)  # type: ignore[method-assign]
        self._live = Live(get_renderable=self._render, console=console, redirect_stderr=sys.stderr.isatty())
        self._live.start(refresh=True)
        live_views.append(self)

    def row(self, step: int, metrics: Metrics) -> None:
        """Add a step. The thread draws it: with short steps not every one."""
        if self not in live_views:
            super().row(step, metrics)
            return
        self._rows.append((step, cells(metrics)))
        self._titles |= self._rows[-1][1].keys()
        self._times = phase_times(metrics) or self._times
        self._step, self._stepped = step, time.monotonic()

    def sample(self, generation: Mapping[str, Any]) -> None:
        texts = [f"{generation.get(name)!r}" for name in ("prompt", "response", "score")]
        self._sample = "{} → {}  score {}".format(*texts)

    def close(self) -> None:
        """Leave the last table where it is."""
        if self in live_views:
            live_views.remove(self)
            bdb.Bdb.set_trace = self._debugger  # type: ignore[method-assign]
            with contextlib.suppress(OSError):  # the terminal may be gone
                sys.stdout.flush()  # what was printed without an end of line
                self._live.stop()

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
            now, head = time.monotonic(), f"{self._title}  step {self._step}/{self._total}".strip()
            head += f"  {duration(now - self._begin)}"
            if self._first < self._step < self._total:
                left = (self._stepped - self._begin) / (self._step - self._first) * (self._total - self._step)
                head += f"  {duration(max(0.0, left - now + self._stepped))} left"
            below = [f"{name:8}{text}" for name, text in (("time", self._times), ("sample", self._sample)) if text]
            for phase in phases() if self in live_views else ():
                if phase.name != "step":
                    part = f"  {phase.done}/{phase.total} {phase.unit}" if phase.total > 1 else ""
                    below.append(f"{phase.name:14}{duration(now - phase.began):>10}{part}")
            table = [self._columns()] if self._rows else []
            shown = [Text(line, no_wrap=True, overflow="crop") for line in (head, *below)]
            return Group(shown[0], *table, *shown[1:])
        except Exception as error:
            return f"cannot draw the table: {type(error).__name__}"

    def _columns(self) -> Any:
        """Return the table, without the least important columns if they do not fit."""
        from rich import box
        from rich.table import Table

        columns = sorted((column for column in COLUMNS if column.title in self._titles), key=lambda each: each.rank)
        fitting = columns[: max(1, self._console.width // 9 - 1)]
        titles = [column.title for column in COLUMNS if column in fitting]
        table = Table("step", *titles, box=box.SIMPLE_HEAD, pad_edge=False)
        for column in table.columns:
            column.justify, column.no_wrap = "right", True
        for step, texts in list(self._rows):
            table.add_row(str(step), *(texts.get(title, "") for title in titles))
        return table


live_views: list[LiveView] = []


def _leave_in_child() -> None:
    """Let a process that was forked print past the table: a lock that it would need may be held for ever."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        setattr(sys, name, getattr(stream, "rich_proxied_file", stream))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)
