# vextract:template base/__package__/tracking/tensorboard.py - edit freely
"""TensorBoard as a tracker, and samples as the rows of a table."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[Mapping[str, Any]]
COLUMNS = ("step", "prompt", "response", "ground_truth", "score", "data_source")


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
