# vextract:template base/__package__/tracking/terminal.py - edit freely
"""What a run looks like in a terminal: a table that updates in place, or one line per step where there is none.

Below the table stand the phases under way (`timing.phases`) with their time and, where they have told what they expect,
a bar. A thread draws four times a second; it reads what the run notes anyway, and the run never waits for it.
"""

import bdb
import contextlib
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ..output import say
from .columns import (
    COLUMNS,
    REWARD,
    cell,
    clock,
    duration,
    one_line,
    phase_times,
    sample_line,
    sparkline,
    telling,
    values,
)
from .timing import Phase, phases

ROWS = 12
PER_SECOND = 4
LONGEST_BAR = 40
SHORTEST_BAR = 8


def make_view(title: str, total_steps: int, start_step: int = 0, *, quiet: bool = False) -> "QuietView":
    """Return the table where it can be drawn; lines where not.

    Lines are for a pipe or a log file, a dumb terminal, one that cannot show the bars, a notebook's `!` command (whose
    terminal cannot go back up), and for pdb.
    """
    if quiet:
        return QuietView()
    if sys.stdout.isatty() and sys.gettrace() is None and "JPY_PARENT_PID" not in os.environ:
        from rich.console import Console

        console = Console()
        if console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf"):
            return LiveView(console, title, total_steps, start_step)
    return LineView(total_steps)


class QuietView:
    """Shows a run to a person: nothing but messages."""

    def row(self, step: int, metrics: Mapping[str, float]) -> None:
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

    def row(self, step: int, metrics: Mapping[str, float]) -> None:
        self.message(f"step {step}/{self._total}  {one_line(metrics)}".rstrip())


class LiveView(QuietView):
    """A table of the last steps that updates in place; what is printed or logged meanwhile appears above it.

    It steps aside for a debugger: from there on, lines.
    """

    def __init__(self, console: Any, title: str, total_steps: int, start_step: int) -> None:
        from rich.live import Live

        self._console = console
        self._title, self._total, self._first = title, total_steps, start_step
        self._step, self._metrics, self._sample = start_step, dict[str, float](), ""
        self._rows: deque[tuple[int, dict[str, float]]] = deque(maxlen=ROWS)
        self._titles: set[str] = set()
        self._rewards: deque[float] = deque(maxlen=400)
        self._begin = self._stepped = time.monotonic()
        self._changes, self._drawn = 0, (-1, 0, 0)
        self._table: Any = ""
        self._lines: LineView | None = None
        self._streams = _Streams()
        self._live = Live(
            get_renderable=self._render,
            console=console,
            refresh_per_second=PER_SECOND,
            vertical_overflow="crop",
            redirect_stderr=sys.stderr.isatty(),
        )
        self._live.start(refresh=True)
        self._streams.follow()
        self._debugger, bdb.Bdb.set_trace = bdb.Bdb.set_trace, self._stopping(bdb.Bdb.set_trace)  # type: ignore[method-assign]
        live_views.append(self)

    def row(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a step. The thread draws it: with short steps not every one."""
        if self._lines is not None:
            return self._lines.row(step, metrics)
        known = values(metrics)
        self._rows.append((step, known))
        self._titles |= telling([known])
        reward = next((metrics[name] for name in REWARD if name in metrics), None)
        if reward is not None:
            self._rewards.append(reward)
        if phase_times(metrics):
            self._metrics = dict(metrics)
        self._step, self._stepped = step, time.monotonic()
        self._changes += 1
        return None

    def sample(self, generation: Mapping[str, Any]) -> None:
        self._sample = sample_line(generation)
        self._changes += 1

    def close(self) -> None:
        """Leave the last table where it is."""
        if self._lines is not None:
            return
        self._lines = LineView(self._total)
        live_views.remove(self)
        bdb.Bdb.set_trace = self._debugger  # type: ignore[method-assign]
        with contextlib.suppress(OSError):  # the terminal may be gone
            sys.stdout.flush()  # what was printed without an end of line
            self._live.stop()
        self._streams.give_back()

    def leave(self) -> None:
        """Let a process that was forked print past the table: a lock that it would need may be held for ever."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            setattr(sys, name, getattr(stream, "rich_proxied_file", stream))
        self._streams.give_back()

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

        try:
            size = self._console.size
            drawn = (self._changes, size.width, size.height)
            if drawn != self._drawn:
                if 0 < size.width < self._drawn[1]:
                    self._console.clear()  # lines were wrapped: the position of the table is no longer known
                self._table, self._drawn = self._draw(size.width, size.height), drawn
            return Group(self._headline(size.width), self._table, *self._phases(size.width))
        except Exception as error:
            return f"cannot draw the table: {type(error).__name__}"

    def _draw(self, width: int, height: int) -> Any:
        """Return all that stays as it is until the next step, as lines of text."""
        from rich.console import Group
        from rich.text import Text

        below = []
        if self._rewards:
            below.append(Text(f"reward  {sparkline(list(self._rewards), min(40, width - 8))}", style="green"))
        if times := phase_times(self._metrics, width - 8):
            below.append(Text(f"time    {times}", style="dim"))
        if self._sample:
            below.append(Text(f"sample  {self._sample}", style="dim", no_wrap=True, overflow="ellipsis"))
        shown = list(self._rows)[-max(3, min(ROWS, height - 10)) :]
        table = [self._columns(shown, width)] if shown else []
        lines = self._console.render_lines(Group(*table, *below), pad=False)
        return _Lines(lines)

    def _columns(self, rows: list[tuple[int, dict[str, float]]], width: int) -> Any:
        """Return the table, without the least important columns if they do not fit."""
        from rich import box
        from rich.measure import Measurement
        from rich.table import Table

        columns = [column for column in COLUMNS if column.title in self._titles]
        unlimited = self._console.options.update(width=1000)
        while True:
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
            table.add_column("step", justify="right", style="bold", no_wrap=True)
            for column in columns:
                style = {"reward": "green", "val": "cyan"}.get(column.title)
                table.add_column(column.title, justify="right", style=style, no_wrap=True)
            for step, known in rows:
                table.add_row(str(step), *(cell(column, known) for column in columns))
            if not columns or Measurement.get(self._console, unlimited, table).maximum <= width:
                return table
            columns.remove(max(columns, key=lambda column: column.rank))

    def _headline(self, width: int) -> Any:
        """Return the run, its step and its clock; the run's name gives way first."""
        from rich.text import Text

        now, done = time.monotonic(), self._step - self._first
        parts = [f"step {self._step}/{self._total}", clock(now - self._begin)]
        if done > 0 and self._step < self._total:
            left = (self._stepped - self._begin) / done * (self._total - self._step) - (now - self._stepped)
            parts.append(f"{clock(max(0.0, left))} left")
        text = "  ".join(parts)
        if self._title and len(self._title) + 2 + len(text) <= width:
            text = f"{self._title}  {text}"
        return Text(text, style="italic", no_wrap=True, overflow="crop")

    def _phases(self, width: int) -> list[Any]:
        """Return a line for each phase under way: its name, its time, and a bar where its length is known."""
        if self._lines is not None:
            return []
        shown: list[Phase] = []
        for phase in phases():
            if shown and shown[-1].name == phase.name:
                shown.pop()
            if phase.name != "step":
                shown.append(phase)
        now = time.monotonic()
        return [self._phase(phase, depth, now, width) for depth, phase in enumerate(shown)]

    def _phase(self, phase: Phase, depth: int, now: float, width: int) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        name, passed = "  " * depth + phase.name, duration(now - phase.began)
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(no_wrap=True, min_width=13)
        line.add_column(no_wrap=True, min_width=8, justify="right")
        cells: list[Any] = [Text(name, style="bold"), passed]
        if phase.total > 1:
            done = min(phase.done, phase.total)
            count = f"{done}/{phase.total} {phase.unit}"
            room = width - max(13, len(name)) - max(8, len(passed)) - len(count) - 6
            if room < -2:
                count = f"{done}/{phase.total}"
            if room >= SHORTEST_BAR:
                cells.append(ProgressBar(phase.total, done, width=min(LONGEST_BAR, room)))
            cells.append(Text(count, no_wrap=True, overflow="crop"))
        line.add_row(*cells)
        return line


class _Lines:
    """Lines that were drawn before."""

    def __init__(self, lines: Any) -> None:
        self.lines = lines

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.segment import Segment

        for line in self.lines:
            yield from line
            yield Segment.line()


class _Streams:
    """Log handlers that hold a stream from before the table was there: they write above the table while it is."""

    def __init__(self) -> None:
        self._before = {"stdout": sys.stdout, "stderr": sys.stderr}
        self._moved: list[tuple[Any, Any]] = []

    def follow(self) -> None:
        """Have them write where the streams go now."""
        loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
        handlers = {handler for logger in loggers for handler in getattr(logger, "handlers", [])}
        for handler in handlers:
            for name, stream in self._before.items():
                if getattr(handler, "stream", None) is stream and getattr(sys, name) is not stream:
                    self._moved.append((handler, stream))
                    handler.stream = getattr(sys, name)

    def give_back(self) -> None:
        """Have them write where they did before."""
        for handler, stream in self._moved:
            handler.stream = stream


live_views: list[LiveView] = []


def _leave_in_child() -> None:
    for view in live_views:
        view.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)
