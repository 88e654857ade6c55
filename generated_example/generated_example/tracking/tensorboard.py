# vextract:template base/__package__/tracking/tensorboard.py - edit freely
"""TensorBoard as a tracker, and samples as the rows of a table."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[Mapping[str, Any]]
TEXTS = ("prompt", "response", "ground_truth", "data_source")
COLUMNS = ("step", "prompt", "response", "ground_truth", "score", "data_source")


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

    def samples(self, name: str, rows: Rows, step: int) -> None:
        self._writer.add_text(name, markdown(rows, step), step)

    def close(self, outcome: str) -> None:
        self._writer.close()


def cells(rows: Rows, step: int) -> list[list[Any]]:
    """Write samples as the rows of a table with COLUMNS."""
    found = []
    for row in rows:
        texts = {name: as_text(row.get(name)) for name in TEXTS}
        found.append([{**row, **texts, "step": step}.get(name) for name in COLUMNS])
    return found


def markdown(rows: Rows, step: int) -> str:
    """Write samples as a table in Markdown, which shows what the model wrote as it is."""

    def shown(value: Any) -> str:
        return "`" + str(value).replace("`", "'").replace("|", "\\|").replace("\n", "⏎") + "`"

    lines = [f"|{'|'.join(COLUMNS)}|", f"|{'---|' * len(COLUMNS)}"]
    return "\n".join([*lines, *(f"|{'|'.join(map(shown, row))}|" for row in cells(rows, step))])


def as_text(value: Any) -> str:
    """Return a value as text that every store takes: without half surrogate pairs."""
    return str(value).encode("utf-8", "backslashreplace").decode()
