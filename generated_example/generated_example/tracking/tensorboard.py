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
        self._writer.close()

    def _write(self, summary: Any, step: int) -> None:
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))


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
