# vextract:template
"""Where the numbers of a run go: the terminal, metrics.jsonl, generations.jsonl, TensorBoard, wandb, curves.png.

Nothing heavy is imported before it is needed, so the first training step does not wait for a plotting library.
"""

import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from .terminal import make_view

METRICS = "metrics.jsonl"
GENERATIONS = "generations.jsonl"
CURVES = "curves.png"


class Sink(Protocol):
    """A place that metrics are written to."""

    def log(self, metrics: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...


class RunTracker:
    """Records a run. Use it as a context manager: it closes, and plots, on an exception too.

    Only rank 0 writes; on other ranks every method does nothing.

    Args:
        config: the whole config. `trainer.logger` lists where metrics go besides the files: console, tensorboard,
            wandb. `trainer.project_name` and `trainer.experiment_name` name the run.
        run_dir: directory of the files, created if need be.
        total_steps: how many steps the run has in all.
        start_step: the step of the checkpoint that the run resumes from. Rows after it are dropped from the files.
            With 0 the run is new: files of an earlier run are kept as metrics.1.jsonl and so on.
    """

    def __init__(self, config: Any, run_dir: Path, total_steps: int, *, start_step: int = 0) -> None:
        self.active = int(os.environ.get("RANK", "0")) == 0
        self.run_dir = Path(run_dir)
        self._config = config
        self._start_step = start_step
        self._closed = not self.active
        if not self.active:
            return
        self.run_dir.mkdir(parents=True, exist_ok=True)
        trainer = config.trainer
        names = trainer.get("logger") or []
        self._backends = [names] if isinstance(names, str) else list(names)
        self._sinks: list[Sink] | None = None
        self._metrics = JsonLines(self.run_dir / METRICS, start_step)
        self._generations = JsonLines(self.run_dir / GENERATIONS, start_step)
        self._title = " / ".join(
            str(trainer.get(key)) for key in ("project_name", "experiment_name") if trainer.get(key)
        )
        self._view = make_view(self._title, total_steps, start_step, quiet="console" not in self._backends)

    def __enter__(self) -> "RunTracker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Record a step's metrics, under upstream's names. Call it once a step, with everything in one mapping."""
        if self._closed:
            return
        numbers = {name: _number(value) for name, value in metrics.items()}
        self._metrics.append({"step": step, **{name: _json_number(value) for name, value in numbers.items()}})
        for sink in self._open_sinks():
            sink.log(numbers, step)
        self._view.row(step, numbers)

    def log_generations(self, rows: Iterable[Mapping[str, Any]], step: int) -> None:
        """Record what the model wrote.

        Args:
            rows: prompt, response, ground_truth, score, and whatever else goes into JSON.
            step: the step it was written in.
        """
        if self._closed:
            return
        last = None
        for last in rows:
            self._generations.append({"step": step, **last})
        if last is not None:
            self._view.sample(last)

    def message(self, text: str) -> None:
        """Show a line of text, above the table while there is one."""
        if not self._closed:
            self._view.message(text)

    def close(self) -> None:
        """Close the files and draw the curves. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._view.close()
        self._metrics.close()
        self._generations.close()
        for sink in self._sinks or []:
            sink.close()
        self._plot()

    def _open_sinks(self) -> list[Sink]:
        if self._sinks is None:
            self._sinks = []
            for name, opener in (("tensorboard", TensorBoard), ("wandb", Wandb)):
                if name not in self._backends:
                    continue
                try:
                    self._sinks.append(opener(self._config, self.run_dir, self._start_step))
                except ImportError as error:
                    self._view.message(f"trainer.logger asks for {name}, which cannot be imported: {error}")
        return self._sinks

    def _plot(self) -> None:
        rows = read_rows(self.run_dir / METRICS)
        if len(rows) < 2:
            return
        try:
            from .plots import draw_curves

            draw_curves(rows, self.run_dir / CURVES, self._title)
        except Exception as error:  # a missing picture must not hide how the run ended
            self._view.message(f"no {CURVES}: {error}")
        else:
            self._view.message(f"curves: {self.run_dir / CURVES}")


class JsonLines:
    """A file of one JSON object a line, each flushed as it is written.

    Args:
        path: the file.
        start_step: rows with a later `step` are dropped; 0 moves an existing file aside and starts a new one.
    """

    def __init__(self, path: Path, start_step: int) -> None:
        if start_step == 0:
            _move_aside(path)
        elif path.exists():
            kept = [row for row in read_rows(path) if row.get("step", 0) <= start_step]
            scratch = path.with_suffix(".tmp")
            scratch.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept), encoding="utf-8")
            scratch.replace(path)
        self._file = path.open("a", encoding="utf-8")

    def append(self, row: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False, default=_jsonable) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class TensorBoard:
    """Event files under run_dir/tensorboard, by the tensorboard package's own writer (torch's takes 1 s to import)."""

    def __init__(self, config: Any, run_dir: Path, start_step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(run_dir / "tensorboard"), flush_secs=10)
        if start_step:  # tells TensorBoard to forget what came after the checkpoint
            session = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=time.time(), step=start_step + 1, session_log=session))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=values)))

    def close(self) -> None:
        self._writer.close()


class Wandb:
    """A run on Weights & Biases; a resumed run goes on under the same id."""

    def __init__(self, config: Any, run_dir: Path, start_step: int) -> None:
        import wandb
        from omegaconf import OmegaConf

        id_file = run_dir / "wandb_id"
        known = id_file.read_text().strip() if start_step and id_file.exists() else None
        self._run = wandb.init(
            project=config.trainer.get("project_name"),
            name=config.trainer.get("experiment_name"),
            config=OmegaConf.to_container(config, resolve=True),
            dir=str(run_dir),
            id=known,
            resume="allow",
        )
        id_file.write_text(self._run.id)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON lines file; a last line that a killed process left half-written is skipped."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def _move_aside(path: Path) -> None:
    if not path.exists() or path.stat().st_size == 0:
        return
    number = 1
    while (target := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    path.rename(target)


def _number(value: Any) -> float:
    return float(value.item() if hasattr(value, "item") else value)


def _json_number(value: float) -> float | None:
    return value if math.isfinite(value) else None  # NaN is not JSON


def _jsonable(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
