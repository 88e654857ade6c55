# vextract:template - edit freely
"""What a run looks like in a terminal: a table of the last steps, which updates in place, or one line per step."""

import bdb
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from ..output import say
from ..switches import PLOTS
from . import phases

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
    if PLOTS and not quiet:
        from .notebook import NotebookView, in_notebook

        if in_notebook():
            return NotebookView(title, total_steps)
    if not quiet and (console := drawing_console()) is not None:
        return LiveView(console, title, total_steps, start_step)
    return LineView(total_steps, quiet=quiet)


class LineView:
    """Shows a run to a person: one line of text per step, and messages; where it is quiet, only these."""

    def __init__(self, total_steps: int, *, quiet: bool = False) -> None:
        self._total, self._quiet = total_steps, quiet

    def row(self, step: int, metrics: Metrics) -> None:
        """Show a step: `step 3/9  reward 0.250  entropy 1.500  (gen 20 ms, update_actor 1.2 s)`."""
        if not self._quiet:
            texts = [f"step {step}/{self._total}", *(f"{title} {text}" for title, text in cells(metrics).items())]
            times = phase_times(metrics)
            self.message("  ".join([*texts, f"({times})"] if times else texts))

    def sample(self, generation: Mapping[str, Any]) -> None:
        pass

    def message(self, text: str) -> None:
        say(text)

    def close(self) -> None:
        pass


def drawing_console() -> Any:
    """Return a console that a table can be drawn on; None where lines are better.

    Lines are for a pipe or a log file, a dumb terminal, one without box characters, a notebook's `!` command (whose
    terminal cannot go back up), and for pdb.
    """
    if sys.stdout is None or not sys.stdout.isatty() or sys.gettrace() is not None or "JPY_PARENT_PID" in os.environ:
        return None
    from rich.console import Console

    console = Console()
    fits = console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")
    return console if fits else None


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
        self._begin = self._stepped = time.perf_counter()
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
        self._step, self._stepped = step, time.perf_counter()

    def sample(self, generation: Mapping[str, Any]) -> None:
        shown = map(generation.get, ("prompt", "response", "score"))
        self._sample = "{!r} → {!r}  score {!r}".format(*shown)

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
        from rich import box
        from rich.console import Group
        from rich.table import Column, Table
        from rich.text import Text

        try:
            now, head = time.perf_counter(), f"{self._title}  step {self._step}/{self._total}".strip()
            head += f"  {duration(now - self._begin)}"
            if self._first < self._step < self._total:
                left = (self._stepped - self._begin) / (self._step - self._first) * (self._total - self._step)
                head += f"  {duration(max(0.0, left - now + self._stepped))} left"
            below = [f"{name:8}{text}" for name, text in (("time", self._times), ("sample", self._sample)) if text]
            for name, began in list(phases) if self in live_views else ():
                if name != "step":
                    below.append(f"{name:14}{duration(now - began):>10}")
            # The least important columns are left out if they do not fit.
            titles = [title for title in COLUMNS if title in self._titles][: max(1, self._console.width // 9 - 1)]
            columns = [Column(title, justify="right", no_wrap=True) for title in ("step", *titles)]
            table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
            for step, texts in list(self._rows):
                table.add_row(str(step), *(texts.get(title, "") for title in titles))
            shown = [Text(line, no_wrap=True, overflow="crop") for line in (head, *below)]
            return Group(shown[0], *([table] if self._rows else []), *shown[1:])
        except Exception as error:
            return f"cannot draw the table: {type(error).__name__}"


live_views: list[LiveView] = []


def _leave_in_child() -> None:
    """Let a process that was forked print past the table: a lock that it would need may be held for ever."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        setattr(sys, name, getattr(stream, "rich_proxied_file", stream))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)
