# vextract:template - edit freely
"""What a run looks like in a notebook: a table and curves in the cell that has started it, drawn anew as it goes on."""

import html
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..output import say
from .terminal import COLUMNS, LineView, cells

ROWS = 12
SECONDS = 0.5  # between two tables
SHARE = 0.03  # of the time that may go into drawing curves


def in_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook, which can draw."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell is not None and hasattr(shell, "kernel")


class NotebookView(LineView):
    """A table of the last steps and the curves so far; what is printed meanwhile stands above or below.

    Args:
        title: of the run.
        total_steps: of the run.
    """

    def __init__(self, title: str, total_steps: int) -> None:
        from IPython.display import HTML, display

        self._html, self._title, self._total = HTML, title, total_steps
        self._rows: deque[tuple[int, dict[str, str]]] = deque(maxlen=ROWS)
        self._all: list[dict[str, Any]] = []
        self._titles: set[str] = set()
        self._sample: Mapping[str, Any] = {}
        self._begin = self._curves_at = time.monotonic()
        self._drawn, self._took = 0.0, 0.0
        self._table = display(HTML(self._text()), display_id=True)
        self._curves = display(HTML(""), display_id=True)

    def row(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a step, and draw, unless that was done just now."""
        self._rows.append((step, cells(metrics)))
        self._titles |= self._rows[-1][1].keys()
        self._all.append({"step": step, **metrics})
        if time.monotonic() - self._drawn > SECONDS:
            self._draw()

    def sample(self, generation: Mapping[str, Any]) -> None:
        """Show it below the table from now on."""
        self._sample = generation

    def message(self, text: str) -> None:
        """Print a line."""
        say(text)

    def close(self) -> None:
        """Draw the last state."""
        self._draw(last=True)

    def _draw(self, *, last: bool = False) -> None:
        self._table.update(self._html(self._text()))
        self._drawn = now = time.monotonic()
        if len(self._all) > 1 and (last or self._took < SHARE * (now - self._curves_at)):
            self._draw_curves()
            self._curves_at = time.monotonic()
            self._took = self._curves_at - now

    def _draw_curves(self) -> None:
        from IPython.display import Image

        from .plots import draw_curves

        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "curves.png"
            try:
                draw_curves(self._all, path, self._title)
            except Exception as error:  # a missing picture must not end the run
                say(f"no curves: {error}")
                return
            self._curves.update(Image(path.read_bytes()))

    def _text(self) -> str:
        """Return the table as HTML."""
        titles = [title for title in COLUMNS if title in self._titles]
        step = self._rows[-1][0] if self._rows else 0
        seconds = time.monotonic() - self._begin
        head = "".join(f"<th>{name}</th>" for name in ["step", *titles])
        lines = "".join(
            "<tr>"
            + "".join(f"<td>{text}</td>" for text in [str(step), *(texts.get(title, "") for title in titles)])
            + "</tr>"
            for step, texts in self._rows
        )
        sample = ""
        if self._sample:
            parts = [f"{name}: {str(self._sample.get(name))!r:.200}" for name in ("prompt", "response", "score")]
            sample = f"<div>{html.escape('  '.join(parts))}</div>"
        title = html.escape(f"{self._title}  step {step}/{self._total}  {seconds:.0f} s".strip())
        return f"<div><i>{title}</i></div><table><tr>{head}</tr>{lines}</table>{sample}"
