"""Read a run's directory, also while it is being written."""

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from extractor.values.configtree import flatten
from extractor.values.errors import UsageError

METRICS = "metrics.jsonl"
GENERATIONS = "generations.jsonl"
CONFIG = "config.yaml"
ENVIRONMENT = "environment.json"
_NUMBERED = re.compile(r"metrics(\.\d+)?\.jsonl")
_SECRET = re.compile(r"(^|[_.])(api_?key|password|passwd|secret|access_token|auth_token)$", re.IGNORECASE)


@dataclass(frozen=True)
class RecordedRun:
    """A run, as its files tell it.

    Args:
        path: its directory, or the metrics.N.jsonl of an earlier run in it, as it was given.
        name: tells it from the others on the page.
        rows: of metrics.jsonl, by step; of a step that was logged twice, the last.
        generations: of generations.jsonl.
        config: setting -> value, as text; empty if it was not recorded.
        starts: of environment.json: a run that was resumed has several.
    """

    path: Path
    name: str
    rows: tuple[Mapping[str, Any], ...] = field(repr=False)
    generations: tuple[Mapping[str, Any], ...] = field(repr=False)
    config: Mapping[str, str] = field(repr=False)
    starts: tuple[Mapping[str, Any], ...] = field(repr=False)

    @property
    def directory(self) -> Path:
        """Return where its files are."""
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def end(self) -> Mapping[str, Any]:
        """Return how its last start ended; empty if it has not, or that is unknown."""
        end = self.starts[-1].get("end") if self.starts else None
        return end if isinstance(end, dict) else {}

    @property
    def status(self) -> str:
        """Return how far the run has come, and how it ended, if known: "step 60 of 100, stopped"."""
        end = str(self.end.get("outcome", "") if self.end else "not ended" * bool(self.starts))
        total = self.starts[-1].get("total_steps") if self.starts else None
        step = f"step {self.rows[-1]['step']}{f' of {total}' if total else ''}" if self.rows else "no step yet"
        return f"{step}, {end}" if end else step

    @cached_property
    def metrics(self) -> Mapping[str, Mapping[int, float | None]]:
        """Map metrics to logged values by row; None if not finite."""
        columns: dict[str, dict[int, float | None]] = {}
        for index, row in enumerate(self.rows):
            for name, value in row.items():
                if name not in ("step", "time"):
                    columns.setdefault(name, {})[index] = number(value)
        return columns

    def points(self, name: str) -> dict[int, float]:
        """Return step -> value of a metric, where it is finite."""
        column = self.metrics.get(name, {})
        return {self.rows[index]["step"]: value for index, value in column.items() if value is not None}

    @cached_property
    def elapsed(self) -> tuple[float | None, ...]:
        """Return seconds until each row, from the first start, or the first row where none is recorded."""
        times = [number(row.get("time")) for row in self.rows]
        known = [time for time in (*(number(start.get("time")) for start in self.starts), *times) if time is not None]
        return tuple(None if time is None else time - min(known) for time in times)


def read_runs(paths: Sequence[Path]) -> list[RecordedRun]:
    """Read runs, each under a name of its own.

    Raises:
        UsageError: a path is not that of a run.
    """
    records = [find_files(path) for path in paths]
    return [
        RecordedRun(
            path=path,
            name=name,
            rows=tuple(_group_by_step(read_rows(files[METRICS]))),
            generations=tuple(row for row in read_rows(files[GENERATIONS]) if _is_step(row.get("step"))),
            config=_read_settings(files[CONFIG]),
            starts=tuple(read_starts(files[ENVIRONMENT])),
        )
        for path, name, files in zip(paths, _name_runs(paths), records, strict=True)
    ]


def find_runs(folder: Path) -> list[Path]:
    """Return the directories of all runs below a folder, sorted.

    Raises:
        UsageError: there are none.
    """
    folders = sorted(path.parent for path in folder.glob(f"*/*/{METRICS}"))
    if not folders:
        raise UsageError(f"there is no run under {folder}/", hint="train first, or name a run's directory")
    return folders


def find_files(path: Path) -> dict[str, Path]:
    """Return where a run's records are, whether or not they exist.

    Raises:
        UsageError: the path is not that of a run.
    """
    names = (METRICS, GENERATIONS, CONFIG, ENVIRONMENT)
    if path.is_file() and (match := _NUMBERED.fullmatch(path.name)):
        suffix = match[1] or ""
        return {name: path.with_name(f"{Path(name).stem}{suffix}{Path(name).suffix}") for name in names}
    if path.is_dir() and any((path / name).exists() for name in (METRICS, ENVIRONMENT)):
        return {name: path / name for name in names}
    what = f"is not the directory of a run: it has no {METRICS}" if path.exists() else "does not exist"
    raise UsageError(f"{path} {what}", hint=_name_runs_in(path if path.is_dir() else path.parent))


def number(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _name_runs_in(folder: Path) -> str:
    near: list[str] = []
    with suppress(OSError):  # a folder near it may go in the meantime
        near += sorted(str(file.parent) for end in ("*", "*/*", "*/*/*") for file in folder.glob(f"{end}/{METRICS}"))
    if not near:
        return "a run's directory is trainer.default_local_dir: checkpoints/PROJECT/EXPERIMENT if it was not set"
    return f"runs near it: {', '.join(near[:5])}" + (f" and {len(near) - 5} more" if len(near) > 5 else "")


def _name_runs(paths: Sequence[Path]) -> list[str]:
    """Name runs by shortest distinct path endings; number repeated paths."""
    absolute = [Path(os.path.abspath(path)) for path in paths]  # noqa: PTH100 - a link keeps its name
    depths = range(1, max(len(path.parts) for path in absolute) + 1)
    named = (["/".join(path.parts[-depth:]) for path in absolute] for depth in depths)
    names = next(names for names in named if len(set(names)) == len(set(absolute)))
    counts = [names[: index + 1].count(name) for index, name in enumerate(names)]
    return [name if count == 1 else f"{name} ({count})" for name, count in zip(names, counts, strict=True)]


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _group_by_step(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    latest: dict[int, Mapping[str, Any]] = {}
    for row in rows:
        if _is_step(row.get("step")):  # a run that was evaluated once more has two for its last step
            latest[row["step"]] = {**latest.get(row["step"], {}), **row}
    return [latest[step] for step in sorted(latest)]


def _read_settings(path: Path) -> dict[str, str]:
    try:
        config = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        return {CONFIG: f"cannot be read: {error}"}
    settings = {}
    for key, value in sorted(flatten(config if isinstance(config, dict) else {"": config}).items()):
        text = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
        is_secret = value is not None and _SECRET.search(key) is not None
        settings[key] = "(not shown)" if is_secret else text.removesuffix("\n").removesuffix("\n...")
    return settings


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the valid rows of a JSON lines file."""
    if not path.exists():
        return []
    rows = []
    # Lines end with \n and nothing else: str.splitlines would also break at the odd characters that models write.
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        with suppress(ValueError, RecursionError):
            if isinstance(row := json.loads(line), dict):
                rows.append(row)
    return rows


def read_starts(path: Path) -> list[dict[str, Any]]:
    """Return the starts in environment.json, oldest first; [] if unreadable."""
    try:
        starts = json.loads(path.read_text(encoding="utf-8"))["starts"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [start for start in starts if isinstance(start, dict)] if isinstance(starts, list) else []
