# vextract:template - edit freely
"""Where a run's numbers can go besides its own files: a class for each tracker that `trainer.logger` may name."""

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from ..absent import MODULES
from ..output import install_command
from ..settings.suggestions import choose
from ..switches import TRACKERS
from .services import SERVICES

Rows = Sequence[Mapping[str, Any]]
COLUMNS = ("step", "prompt", "response", "ground_truth", "score", "data_source")


class Tracker(Protocol):
    """A place that a run is recorded in. Whatever it raises is reported once, and the run goes on.

    Attributes:
        package: what is imported.
        requirement: what pip installs it by.
    """

    package: ClassVar[str]
    requirement: ClassVar[str]

    def __init__(self, config: Mapping[str, Any], directory: Path, start_step: int) -> None:
        """Begin a record.

        Args:
            config: the whole config, as plain values, without secrets.
            directory: of the run.
            start_step: of the checkpoint that it resumes from; 0: it is new.
        """

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Record a step's metrics, under upstream's names."""

    def samples(self, name: str, rows: Rows, step: int) -> None:
        """Record samples (prompt, response, score ...) as the table `name`."""

    def close(self, outcome: str) -> None:
        """End the record of a run that is finished, stopped or failed."""


class TensorBoard:
    """Event files under run_dir/tensorboard, by the tensorboard package's own writer (torch's takes 1 s to import)."""

    package = "tensorboard"
    requirement = "tensorboard>=2.10"

    def __init__(self, config: Mapping[str, Any], directory: Path, start_step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(directory.absolute() / "tensorboard"), flush_secs=10)
        if start_step:  # tells TensorBoard to forget what came after the checkpoint
            session = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=time.time(), step=start_step + 1, session_log=session))
        self._write_hparams(flat(config))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._write(self._summary(value=[self._summary.Value(tag=n, simple_value=v) for n, v in metrics.items()]), step)

    def samples(self, name: str, rows: Rows, step: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING

        text = markdown(rows, step).encode("utf-8", "backslashreplace")
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        tensor = TensorProto(dtype=DT_STRING, string_val=[text], tensor_shape=shape)
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        self._write(self._summary(value=[self._summary.Value(tag=name, metadata=metadata, tensor=tensor)]), step)

    def close(self, outcome: str) -> None:
        from tensorboard.plugins.hparams import api_pb2
        from tensorboard.plugins.hparams.summary import session_end_pb

        failed = outcome == "failed"
        self._write(session_end_pb(api_pb2.STATUS_FAILURE if failed else api_pb2.STATUS_SUCCESS), 0)
        self._writer.close()

    def _write_hparams(self, settings: Mapping[str, Any]) -> None:
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb

        plain = {
            name: value if isinstance(value, (bool, int, float)) else str(value) for name, value in settings.items()
        }
        self._write(hparams_pb(plain, trial_id="run"), 0)

    def _write(self, summary: Any, step: int) -> None:
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings as one mapping from dotted keys; lists stay."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found


def cells(rows: Rows, step: int) -> list[list[Any]]:
    """Write samples as the rows of a table with COLUMNS."""
    texts = ("prompt", "response", "ground_truth", "data_source")
    return [
        [step if name == "step" else as_text(row.get(name)) if name in texts else row.get(name) for name in COLUMNS]
        for row in rows
    ]


def markdown(rows: Rows, step: int) -> str:
    """Write samples as a table in Markdown, which shows what the model wrote as it is."""

    def shown(value: Any) -> str:
        return "`" + str(value).replace("`", "'").replace("|", "\\|").replace("\n", "⏎") + "`"

    lines = [f"|{'|'.join(COLUMNS)}|", f"|{'---|' * len(COLUMNS)}"]
    return "\n".join([*lines, *(f"|{'|'.join(map(shown, row))}|" for row in cells(rows, step))])


def as_text(value: Any) -> str:
    """Return a value as text that every store takes: without half surrogate pairs."""
    return str(value).encode("utf-8", "backslashreplace").decode()


TRACKER_CLASSES: dict[str, Any] = {"tensorboard": TensorBoard}
if TRACKERS:
    TRACKER_CLASSES.update(SERVICES)
# `file` is verl's name for a file of JSON lines, which metrics.jsonl always is.
LOGGERS = ("console", "file", *TRACKER_CLASSES)
# Modules of trackers that this project may lack, each called as its tracker is.
OTHERS = "tracking.services."


def logger_names(config: Any) -> list[str]:
    """Return what `trainer.logger` lists; it may be a single name."""
    names = config["trainer"].get("logger") or []
    return [names] if isinstance(names, str) else [str(name) for name in names]


def unknown_loggers(config: Any) -> Iterator[tuple[str, str]]:
    """Say which names in `trainer.logger` are not those of a logger, each with a hint."""
    absent = {module.removeprefix(OTHERS): part for module, part in MODULES.items() if module.startswith(OTHERS)}
    for name in logger_names(config):
        if name not in LOGGERS:
            hint = f"vextract add {absent[name]}" if name in absent else choose(name, (*LOGGERS, *absent))
            yield f"trainer.logger names {name!r}, which is not a logger here", hint


def missing_loggers(config: Any) -> Iterator[tuple[str, str]]:
    """Say which trackers in `trainer.logger` are not installed, each with a hint."""
    for name in logger_names(config):
        tracker = TRACKER_CLASSES.get(name)
        if tracker is not None and not is_installed(tracker.package):
            yield (
                f"trainer.logger names {name}, and the package {tracker.package} is not installed",
                install_command(tracker.requirement),
            )


def is_installed(package: str) -> bool:
    """Tell whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


class Trackers:
    """The trackers of a run. One that fails is named once, rests for a while, and does not end the run.

    Args:
        names: of TRACKER_CLASSES.
        config, directory, start_step: what they are told of the run.
        say: shows a line of text.
    """

    REST = 30.0  # seconds, or ten times as long as the call that failed

    def __init__(
        self,
        names: Sequence[str],
        config: Mapping[str, Any],
        directory: Path,
        start_step: int,
        say: Callable[[str], None],
    ) -> None:
        self._say = say
        self._rests: dict[str, float] = {}
        self._open: dict[str, Tracker] = {}
        for name in names:
            self._try(name, self._begin, name, config, directory, start_step)

    def _begin(self, name: str, *run: Any) -> None:
        self._open[name] = TRACKER_CLASSES[name](*run)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Record a step's metrics in each."""
        for name, tracker in self._open.items():
            self._try(name, tracker.log, metrics, step)

    def samples(self, rows: Rows, step: int) -> None:
        """Record samples in each: those of training and of validation in tables of their own."""
        tables: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            tables.setdefault(f"{'train' if row.get('split') == 'train' else 'val'}/generations", []).append(row)
        for table, part in tables.items():
            for name, tracker in self._open.items():
                self._try(name, tracker.samples, table, part, step)

    def close(self, outcome: str) -> None:
        """Close each."""
        for name, tracker in self._open.items():
            self._rests.pop(name, None)
            self._try(name, tracker.close, outcome, said=True)

    def _try(self, name: str, call: Callable[..., None], *arguments: Any, said: bool = False) -> None:
        began = time.monotonic()
        if began < self._rests.get(name, began):
            return
        try:
            call(*arguments)
        except Exception as error:
            now = time.monotonic()
            said = said or name in self._rests
            self._rests[name] = now + max(self.REST, 10 * (now - began))
            if not said:
                text = " ".join(str(error).split())[:300]
                self._say(f"{name} does not take what is logged, and the run goes on: {type(error).__name__}: {text}")
