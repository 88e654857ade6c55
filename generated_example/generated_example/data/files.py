# vextract:template base/__package__/data/files.py - edit freely
"""Rows of files: parquet, or JSON, one object per line or a list of them; and rows held in memory."""

import copy
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from .messages import check_characters

# What `datasets` hands out as it is stored; it decodes others, such as images.
AS_STORED = {"Value", "List", "LargeList", "Sequence"}


class Rows:
    """Rows in memory, which answer what verl's dataset asks of a `datasets.Dataset`.

    That would take longer to import than a first step, and gives each object in a column the keys of all. Here a row
    has what it was given; what is handed out are copies, since verl's dataset changes what it reads.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows = with_all_columns(list(rows))

    def __len__(self) -> int:
        return len(self._rows)

    def __deepcopy__(self, memo: Any) -> "Rows":
        return self  # nobody changes them

    def __getitem__(self, key: Any) -> Any:
        """Return a row, by its number, or a column, by its name."""
        return copy.deepcopy([row[key] for row in self._rows] if isinstance(key, str) else self._rows[key])

    def select(self, indices: Iterable[int]) -> "Rows":
        """Return the rows with these numbers."""
        return Rows(self._rows[index] for index in indices)


def with_all_columns(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows that have every column of any of them; None where a row had no such column."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in columns} for row in rows]


def read_rows(file: str, key: str) -> list[dict[str, Any]]:
    """Return the rows of a .parquet, .jsonl or .json file, of which there is at least one.

    Args:
        file: its path.
        key: the setting that names it, for messages.

    Raises:
        DataError: it is not there, is none of these, cannot be read, or holds no rows.
    """
    path = Path(file).expanduser()
    if path.is_dir():
        raise DataError(f"{file} is a directory", f"name the files in it: {key}=[one.parquet,two.parquet]")
    if not path.is_file():
        raise DataError(f"no such file: {file}", f"check {key}")
    if path.suffix.lower() == ".parquet":
        opened = open_parquet(path, key)
        # Read by `datasets` where that decodes something. Otherwise it would take long to import.
        rows = opened.read().to_pylist() if is_as_stored(opened) else list(_by_datasets(path))
    elif path.suffix.lower() in (".jsonl", ".json"):
        rows = _read_json(path, key)
    else:
        stem = file.removesuffix(path.suffix)
        raise DataError(
            f"{file} is neither .parquet nor .jsonl nor .json",
            f"check {key}, or convert it; in Python: pandas.read_csv({file!r}).to_parquet({stem + '.parquet'!r})",
        )
    if not rows:
        raise DataError(f"{file} holds no rows", f"check {key}")
    return rows


def open_parquet(path: Path, key: str) -> Any:
    """Open a parquet file, whose columns and number of rows can be asked for before it is read.

    Raises:
        DataError: it is none.
    """
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"cannot read {path} as parquet: {error}", f"check {key}") from error


def is_as_stored(opened: Any) -> bool:
    """Tell whether an open parquet file holds values as they are: no images, no objects as JSON."""
    schema = opened.schema_arrow
    said = (schema.metadata or {}).get(b"huggingface", b"").decode()
    return set(re.findall(r'"_type": *"(\w+)"', said)) <= AS_STORED and "arrow.json" not in str(schema)


def _by_datasets(path: Path) -> Any:
    import datasets

    return datasets.load_dataset("parquet", data_files=str(path))["train"]


def _read_json(path: Path, key: str) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")  # some programs begin their files with a byte order mark
    except UnicodeDecodeError as error:
        number = path.read_bytes()[: error.start].count(b"\n") + 1
        raise DataError(f"{path}:{number}: not UTF-8: {error.reason}", f"convert it, or check {key}") from error
    # Many call JSON lines .json. Lines end with \n and nothing else: str.splitlines would also break at characters that
    # texts hold.
    is_whole = path.suffix.lower() == ".json" and text.lstrip()[:1] == "["
    rows: list[Any] = []
    for number, line in enumerate([text] if is_whole else text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            place = f"{path}:{number + error.lineno - 1}"
            raise DataError(f"{place}: not valid JSON: {error.msg}", f"check {key}") from error
    rows = rows[0] if is_whole else rows
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path} does not hold one object per row", f"check {key}")
    for number, row in enumerate(rows) if "\\ud" in text.lower() else ():
        check_characters(row, f"{path}, row {number}")
    return rows
