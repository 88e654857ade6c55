# vextract:template base/__package__/tracking/trackers.py - edit freely
"""Where a run's numbers can go besides its own files: a class for each tracker that `trainer.logger` may name."""

import contextlib
import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from ..output import install_command
from ..settings.suggestions import choose

Rows = Sequence[Mapping[str, Any]]
IDS = "trackers.json"
COLUMNS = ("step", "prompt", "response", "ground_truth", "score", "data_source")
SECRET = re.compile(
    r"^token$|(^|[_-])(secret|password|passwd|credentials?|(api|access|private|secret)_?key"
    r"|(auth|access|api|bearer|hf|hub|refresh|session)_?token)$",
    re.IGNORECASE,
)
USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")
HIDDEN = "***"


@dataclass(frozen=True)
class Run:
    """Holds what a tracker is told of a run.

    Attributes:
        project, name: `trainer.project_name` and `trainer.experiment_name`.
        config: the whole config, as plain values, without secrets.
        directory: of the run.
        start_step: of the checkpoint that it resumes from; 0: it is new.
        id: under which the tracker knows the run that is resumed; None: it does not.
        has_table: whether a table updates in place in the terminal, which is nothing to keep a copy of.
    """

    project: str
    name: str
    config: Mapping[str, Any]
    directory: Path
    start_step: int = 0
    id: str | None = None
    has_table: bool = False


class Tracker(Protocol):
    """A place that a run is recorded in. Whatever it raises is reported once, and the run goes on.

    Attributes:
        package: what is imported.
        requirement: what pip installs it by.
        id: under which it knows the run; None: there is none.
    """

    package: ClassVar[str]
    requirement: ClassVar[str]
    id: str | None

    def __init__(self, run: Run) -> None: ...

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

    def __init__(self, run: Run) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.id: str | None = None
        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(run.directory.absolute() / "tensorboard"), flush_secs=10)
        if run.start_step:  # tells TensorBoard to forget what came after the checkpoint
            session = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=time.time(), step=run.start_step + 1, session_log=session))
        self._write_hparams(flat(run.config))

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


class Wandb:
    """A run on Weights & Biases."""

    package = "wandb"
    requirement = "wandb>=0.17"

    def __init__(self, run: Run) -> None:
        import wandb

        self._wandb = wandb
        if not _may_log(wandb):  # it would ask in a terminal, and wait
            raise RuntimeError(
                "nobody is logged in: `wandb login`, or WANDB_API_KEY, sends what is logged; WANDB_MODE=offline keeps "
                "it here for `wandb sync`"
            )
        self._run = wandb.init(
            project=run.project,
            name=run.name,
            config=dict(run.config),
            dir=str(run.directory),
            id=run.id,
            resume="allow",
            settings=wandb.Settings(console="off") if run.has_table else None,
        )
        self.id: str | None = self._run.id
        self._rows: dict[str, list[list[Any]]] = {}

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._run.log(dict(metrics), step=step)

    def samples(self, name: str, rows: Rows, step: int) -> None:
        # Of the tables under a name wandb shows the last: each has the rows of those before it.
        known = self._rows.setdefault(name, [])
        known.extend(cells(rows, step))
        table = self._wandb.Table(columns=list(COLUMNS), data=[list(row) for row in known[-1000:]])
        self._run.log({name: table}, step=step)

    def close(self, outcome: str) -> None:
        self._run.finish(exit_code=int(outcome == "failed"))


def _may_log(wandb: Any) -> bool:
    """Tell whether wandb has what it needs to log, without asking anybody: a key, or a mode that needs none."""
    if wandb.setup().settings.mode in ("offline", "disabled", "dryrun"):
        return True
    try:
        return bool(wandb.login(prompt=False))
    except TypeError:  # earlier versions cannot be told not to ask
        return bool(wandb.api.api_key)


class MLflow:
    """A run in MLflow, in the store that MLFLOW_TRACKING_URI names, or else MLflow's own default."""

    package = "mlflow"
    requirement = "mlflow>=2.10"
    ENDS: ClassVar[dict[str, str]] = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}

    def __init__(self, run: Run) -> None:
        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient

        self._metric = Metric
        self._client: Any = MlflowClient()
        if run.id is not None:
            self._client.update_run(run.id, status="RUNNING")
            self.id: str | None = run.id
            return
        experiment = self._client.get_experiment_by_name(run.project)
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(run.project)
        self.id = self._client.create_run(experiment_id, run_name=run.name).info.run_id
        settings = [Param(_mlflow_name(name), str(value)[:500]) for name, value in flat(run.config).items()]
        for start in range(0, len(settings), 100):  # as many as a request may have
            self._client.log_batch(self.id, params=settings[start : start + 100])
        self._client.log_dict(self.id, dict(run.config), "config.json")

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        values = [self._metric(_mlflow_name(name), value, now, step) for name, value in metrics.items()]
        for start in range(0, len(values), 1000):
            self._client.log_batch(self.id, metrics=values[start : start + 1000])

    def samples(self, name: str, rows: Rows, step: int) -> None:
        columns = zip(*cells(rows, step), strict=True)
        table = {column: list(values) for column, values in zip(COLUMNS, columns, strict=True)}
        self._client.log_table(self.id, table, f"{name}.json")

    def close(self, outcome: str) -> None:
        self._client.set_terminated(self.id, self.ENDS[outcome])


class SwanLab:
    """A run on SwanLab; SWANLAB_MODE says whether it is offline or local."""

    package = "swanlab"
    requirement = "swanlab>=0.6"

    def __init__(self, run: Run) -> None:
        import swanlab

        self._swanlab: Any = swanlab
        resumed = {} if run.id is None else {"id": run.id, "resume": "allow"}
        begun: Any = swanlab.init(
            project=run.project, experiment_name=run.name, config=dict(run.config), logdir=str(run.directory), **resumed
        )
        found = getattr(begun, "id", None)
        self.id: str | None = found if isinstance(found, str) else None

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._swanlab.log(dict(metrics), step=step)

    def samples(self, name: str, rows: Rows, step: int) -> None:
        texts = [self._swanlab.Text(_text(f"{row.get('prompt')}\n---\n{row.get('response')}")) for row in rows]
        self._swanlab.log({name: texts}, step=step)

    def close(self, outcome: str) -> None:
        if outcome == "failed":
            self._swanlab.finish(state="crashed", error="the run failed")
        else:
            self._swanlab.finish()


class Trackio:
    """A run in trackio, in its own directory on this machine (TRACKIO_DIR)."""

    package = "trackio"
    requirement = "trackio>=0.2"

    def __init__(self, run: Run) -> None:
        import trackio

        self._trackio: Any = trackio
        resumed = run.id is not None
        # Runs are told apart by their names: another one of the same name gets the time appended.
        self.id: str | None = run.id if resumed else f"{run.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        trackio.init(
            project=run.project,
            name=self.id,
            config=dict(run.config),
            resume="allow" if resumed else "never",
            embed=False,
        )

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._trackio.log(dict(metrics), step=step)

    def samples(self, name: str, rows: Rows, step: int) -> None:
        import pandas

        frame = pandas.DataFrame(cells(rows, step), columns=list(COLUMNS))
        self._trackio.log({name: self._trackio.Table(dataframe=frame)}, step=step)

    def close(self, outcome: str) -> None:
        self._trackio.finish()


TRACKERS: dict[str, Any] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "mlflow": MLflow,
    "swanlab": SwanLab,
    "trackio": Trackio,
}
# `file` is verl's name for a file of JSON lines, which metrics.jsonl always is.
LOGGERS = ("console", "file", *TRACKERS)


def logger_names(config: Any) -> list[str]:
    """Return what `trainer.logger` lists; it may be a single name."""
    names = config.trainer.get("logger") or []
    return [names] if isinstance(names, str) else [str(name) for name in names]


def unknown_loggers(config: Any) -> Iterator[tuple[str, str]]:
    """Say which names in `trainer.logger` are not those of a logger, each with a hint."""
    for name in logger_names(config):
        if name not in LOGGERS:
            yield f"trainer.logger names {name!r}, which is not a logger here", choose(name, LOGGERS)


def missing_loggers(config: Any) -> Iterator[tuple[str, str]]:
    """Say which trackers in `trainer.logger` are not installed, each with a hint."""
    for name in logger_names(config):
        tracker = TRACKERS.get(name)
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
        names: of TRACKERS.
        run: what they are told.
        say: shows a line of text.
    """

    REST = 30.0  # seconds, or ten times as long as the call that failed

    def __init__(self, names: Sequence[str], run: Run, say: Callable[[str], None]) -> None:
        self._say = say
        self._rests: dict[str, float] = {}
        self._open: dict[str, Tracker] = {}
        file = run.directory / IDS
        known = _known_ids(run.directory) if run.start_step else {}
        for name in names:
            told = replace(run, id=known.get(name))
            with _arguments_without_secrets():
                self._try(name, lambda name=name, told=told: self._open.update({name: TRACKERS[name](told)}))  # type: ignore[misc]
        if ids := {name: tracker.id for name, tracker in self._open.items() if tracker.id}:
            file.write_text(json.dumps(ids, indent=2) + "\n", encoding="utf-8")

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Record a step's metrics in each."""
        for name, tracker in self._open.items():
            self._try(name, lambda tracker=tracker: tracker.log(metrics, step))  # type: ignore[misc]

    def samples(self, rows: Rows, step: int) -> None:
        """Record samples in each: those of training and of validation in tables of their own."""
        tables: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            tables.setdefault(f"{'train' if row.get('split') == 'train' else 'val'}/generations", []).append(row)
        for table, part in tables.items():
            for name, tracker in self._open.items():
                self._try(name, lambda tracker=tracker, t=table, p=part: tracker.samples(t, p, step))  # type: ignore[misc]

    def close(self, outcome: str) -> None:
        """Close each."""
        for name, tracker in self._open.items():
            self._rests.pop(name, None)
            self._try(name, lambda tracker=tracker: tracker.close(outcome), said=True)  # type: ignore[misc]

    def _try(self, name: str, call: Callable[[], None], *, said: bool = False) -> None:
        began = time.monotonic()
        if began < self._rests.get(name, began):
            return
        try:
            call()
        except Exception as error:
            now = time.monotonic()
            said = said or name in self._rests
            self._rests[name] = now + max(self.REST, 10 * (now - began))
            if not said:
                text = " ".join(str(error).split())[:300]
                self._say(f"{name} does not take what is logged, and the run goes on: {type(error).__name__}: {text}")


def without_secrets(value: Any, name: str = "") -> Any:
    """Hide the values of settings that are passwords, keys or tokens by their names, and users in URLs."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets(item, name) for item in value]
    if isinstance(value, str) and value:
        return HIDDEN if SECRET.search(name) else USER_IN_URL.sub(HIDDEN, value)
    return value


def argument_without_secret(argument: str) -> str:
    """Return a command-line argument `key=value` with its value hidden if it is a secret."""
    key, sign, value = argument.partition("=")
    if not sign:
        return USER_IN_URL.sub(HIDDEN, argument)
    return f"{key}={without_secrets(value, key.rpartition('.')[2])}"


@contextlib.contextmanager
def _arguments_without_secrets() -> Iterator[None]:
    """Take the secrets out of sys.argv, which trackers make a note of, as long as this lasts."""
    before = sys.argv
    sys.argv = [argument_without_secret(argument) for argument in before]
    try:
        yield
    finally:
        sys.argv = before


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
        [step if name == "step" else _text(row.get(name)) if name in texts else row.get(name) for name in COLUMNS]
        for row in rows
    ]


def markdown(rows: Rows, step: int) -> str:
    """Write samples as a table in Markdown, which shows what the model wrote as it is."""

    def shown(value: Any) -> str:
        return "`" + str(value).replace("`", "'").replace("|", "\\|").replace("\n", "⏎") + "`"

    lines = [f"|{'|'.join(COLUMNS)}|", f"|{'---|' * len(COLUMNS)}"]
    return "\n".join([*lines, *(f"|{'|'.join(map(shown, row))}|" for row in cells(rows, step))])


def _text(value: Any) -> str:
    """Return a value as text that every store takes: without half surrogate pairs."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _known_ids(directory: Path) -> dict[str, str]:
    try:
        found = json.loads((directory / IDS).read_text(encoding="utf-8"))
        return {str(name): str(value) for name, value in found.items()}
    except (OSError, ValueError, AttributeError):
        pass
    try:  # as earlier versions of this file kept it
        return {"wandb": (directory / "wandb_id").read_text(encoding="utf-8").strip()}
    except OSError:
        return {}


def _mlflow_name(name: str) -> str:
    """Return a name that MLflow takes: upstream's, with `@` written as upstream writes it there."""
    return re.sub(r"[^\w\-. :/]", "_", name.replace("@", "_at_"))
