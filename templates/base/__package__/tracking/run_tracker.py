# vextract:template
"""Where the numbers of a run go: the terminal, metrics.jsonl, generations.jsonl and trackers.

Beside them stands config.yaml, the run's settings; `vextract report` makes a page of all of it. Nothing heavy is
imported before it is needed.
"""

import contextlib
import importlib.util
import itertools
import json
import math
import os
import shlex
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import yaml
from omegaconf import OmegaConf

from ..rewards.alarm import RewardAlarm
from ..switches import PLOTS, PROVENANCE, REWARD_LOGS, TRACKERS
from .provenance import ENVIRONMENT, Starts
from .samples import markdown
from .secrets import without_secrets
from .service import IDS
from .services import SERVICES
from .several import Trackers
from .terminal import LineView, make_view

METRICS = "metrics.jsonl"
GENERATIONS = "generations.jsonl"
CONFIG = "config.yaml"
if PLOTS:
    CURVES = "curves.png"
RECORDS: tuple[str, ...] = (METRICS, GENERATIONS, CONFIG)
if PROVENANCE:
    RECORDS += (ENVIRONMENT,)


class TensorBoard:
    """Event files under run_dir/tensorboard."""

    package = "tensorboard"
    requirement = "tensorboard>=2.16"

    def __init__(self, config: Mapping[str, Any], directory: Path, start_step: int) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        later = start_step + 1 if start_step else None  # what came after the checkpoint is forgotten
        self._writer: Any = SummaryWriter(str(directory.absolute() / "tensorboard"), purge_step=later, flush_secs=10)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    if TRACKERS:

        def samples(self, name: str, rows: Any, step: int) -> None:
            self._writer.add_text(name, markdown(rows, step), step)

    def close(self, outcome: str = "") -> None:
        self._writer.close()


TRACKER_CLASSES: dict[str, Any] = {"tensorboard": TensorBoard}
if TRACKERS:
    RECORDS += (IDS,)
    TRACKER_CLASSES.update(SERVICES)
# `file` is verl's name for a file of JSON lines, which metrics.jsonl always is.
LOGGERS = ("console", "file", *TRACKER_CLASSES)


class RunTracker:
    """Records a run. Use it as a context manager, so that it is closed on an exception too.

    Only rank 0 writes; on other ranks every method does nothing.

    Args:
        config: the whole config. `trainer.logger` lists where metrics go besides the files: to the console, or to one
            of TRACKER_CLASSES.
        run_dir: directory of the files, created if need be.
        total_steps: how many steps the run has in all.
        start_step: the step of the checkpoint that the run resumes from. Rows after it are dropped from the files.
            With 0 the run is new: files of an earlier run are kept as metrics.1.jsonl and so on.
        active: whether it records at all.
    """

    def __init__(
        self, config: Any, run_dir: Path, total_steps: int, *, start_step: int = 0, active: bool = True
    ) -> None:
        self._config, self.run_dir = config, Path(run_dir)
        self._start_step, self._total_steps = start_step, total_steps
        if PROVENANCE or TRACKERS:
            self._step = start_step
        self._closed = not (active and int(os.environ.get("RANK", "0")) == 0)
        if self._closed:
            return
        self.run_dir.mkdir(parents=True, exist_ok=True)
        records = [path for name in RECORDS if (path := self.run_dir / name).exists()]
        if start_step == 0 and any(path.stat().st_size for path in records if path.suffix == ".jsonl"):
            # Files of an earlier run get a number that none of them has yet.
            number = next(number for number in itertools.count(1) if not any(self.run_dir.glob(f"*.{number}.*")))
            for path in records:
                path.rename(path.with_name(f"{path.stem}.{number}{path.suffix}"))
        self._settings = without_secrets(OmegaConf.to_container(config, resolve=True))
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        text = yaml.dump(self._settings, Dumper=dumper, sort_keys=False, allow_unicode=True)
        write_whole(self.run_dir / CONFIG, text)
        if PROVENANCE:
            self._starts = Starts(self.run_dir, start_step, total_steps)
        self._metrics, self._generations = (_open_lines(self.run_dir / it, start_step) for it in (METRICS, GENERATIONS))
        self._view = LineView(total_steps, quiet=True)
        self._trackers: Any = None  # it has the methods of TensorBoard
        if REWARD_LOGS:
            self._alarm = RewardAlarm.of(config)

    def __enter__(self) -> "RunTracker":
        if not self._closed:
            names, trainer = logger_names(self._config), self._config.trainer
            if TRACKERS:  # before the table is there: one may ask for a password
                found = {name: it for name, it in TRACKER_CLASSES.items() if name in names and is_installed(it.package)}
                self._trackers = Trackers(found, self._settings, self.run_dir, self._start_step, self.message)
            elif "tensorboard" in names and is_installed(TensorBoard.package):
                self._trackers = TensorBoard(self._settings, self.run_dir, self._start_step)
            self._title = " / ".join(str(trainer[key]) for key in ("project_name", "experiment_name") if trainer[key])
            self._view = make_view(self._title, self._total_steps, self._start_step, quiet="console" not in names)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._view.close()
            self._metrics.close()
            self._generations.close()
            if PROVENANCE:
                self._starts.end(self._step, self._outcome_of(error), error)
            if TRACKERS:
                self._trackers.close(self._outcome_of(error))
            elif self._trackers is not None:
                self._trackers.close()
            self._print_report_command()
        except OSError:  # a full disk, say, which must not hide why the run ended
            if error is None:
                raise

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Record a step's metrics, under upstream's names. Call it once a step, with everything in one mapping."""
        if self._closed:
            return
        if PROVENANCE or TRACKERS:
            self._step = step
        numbers = as_numbers(metrics)
        self._metrics.write(_json_line({"step": step, "time": round(time.time(), 3), **numbers}))
        if self._trackers is not None:
            self._trackers.log(numbers, step)
        self._view.row(step, numbers)
        if REWARD_LOGS:
            for text in self._alarm.look(numbers):
                self._view.message(f"warning: is the reward being hacked? {text}")

    def fill_in(self, metrics: Mapping[str, Any], step: int) -> None:
        """Record a step that a run had saved, and was killed before it recorded it."""
        if metrics and not self._closed and step not in [row.get("step") for row in read_rows(self.run_dir / METRICS)]:
            self.log(metrics, step)

    def log_generations(self, rows: Iterable[Mapping[str, Any]], step: int) -> None:
        """Record what the model wrote.

        Args:
            rows: prompt, response, ground_truth, score, components (of the reward, by name), data_source, and whatever
                else goes into JSON.
            step: the step it was written in.
        """
        rows = [] if self._closed else list(rows)
        for row in rows:
            self._generations.write(_json_line({"step": step, **row}))
            self._view.sample(row)
        if TRACKERS and rows and self._trackers is not None:
            for split in ("train", "val"):
                if part := [row for row in rows if (row.get("split") == "train") is (split == "train")]:
                    self._trackers.samples(f"{split}/generations", part, step)

    def message(self, text: str) -> None:
        """Show a line of text, above the table while there is one."""
        if not self._closed:
            self._view.message(text)

    if PROVENANCE or TRACKERS:

        def _outcome_of(self, error: BaseException | None) -> str:
            """Return how the run has ended: finished, stopped (by a person, or before its last step) or failed."""
            if error is not None and not isinstance(error, (KeyboardInterrupt, SystemExit)):
                return "failed"
            is_over = self._step >= self._total_steps or self._config.trainer.get("val_only")
            return "finished" if is_over else "stopped"

    def _print_report_command(self) -> None:
        """Print the command that makes the report; draw the curves if the project has plots."""
        rows = read_rows(self.run_dir / METRICS)
        if len(rows) < 2:
            return
        if PLOTS:
            try:
                from .plots import draw_curves

                draw_curves(rows, self.run_dir / CURVES, self._title)
            except Exception as error:  # a missing picture must not hide how the run ended
                self._view.message(f"no {CURVES}: {error}")
            else:
                self._view.message(f"curves: {self.run_dir / CURVES}")
        self._view.message(f"report: vextract report {shlex.quote(str(self.run_dir))}")


def logger_names(config: Any) -> list[str]:
    """Return what `trainer.logger` lists; it may be a single name."""
    names = config["trainer"].get("logger") or []
    return [names] if isinstance(names, str) else [str(name) for name in names]


def is_installed(package: str) -> bool:
    """Tell whether a package can be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def _open_lines(path: Path, start_step: int) -> TextIO:
    """Open a file of one JSON object a line for more; rows after `start_step` are dropped."""
    if path.exists():
        write_whole(path, "".join(_json_line(row) for row in read_rows(path) if row.get("step", 0) <= start_step))
    # Each line is there at once. What UTF-8 has no bytes for, half a surrogate pair, is written as JSON's \uXXXX.
    return path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON lines file; a last line that a killed process left half-written is skipped."""
    found: list[Any] = []
    # Lines end with \n and nothing else: str.splitlines would also break at the odd characters that models write.
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return [row for row in found if isinstance(row, dict)]


def write_whole(path: Path, text: str) -> None:
    """Write a file so that whoever reads it sees all of it, or what was there before."""
    scratch = path.with_name(path.name + ".tmp")
    scratch.write_text(text, encoding="utf-8", errors="backslashreplace")
    scratch.replace(path)


def as_numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return metrics as plain numbers, whatever tensors or arrays of one value they were."""
    return {name: float(value.item() if hasattr(value, "item") else value) for name, value in metrics.items()}


def _json_line(row: Mapping[str, Any]) -> str:
    return json.dumps(_jsonable(row), ensure_ascii=False, default=str) + "\n"


def _jsonable(value: Any) -> Any:
    """Return a value as JSON has it, in which there is no NaN: null stands for that."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _jsonable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(item) for item in value]
    return _jsonable(value.tolist()) if hasattr(value, "tolist") else value
