# vextract:template - edit freely
"""Samples as the rows of a table."""

from collections.abc import Mapping, Sequence
from typing import Any

Rows = Sequence[Mapping[str, Any]]
TEXTS = ("prompt", "response", "ground_truth", "data_source")
COLUMNS = ("step", "prompt", "response", "ground_truth", "score", "data_source")


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
