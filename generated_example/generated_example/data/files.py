# vextract:template base/__package__/data/files.py - edit freely
"""Rows of files: parquet, or JSON, one object per line or a list of them; and rows held in memory."""

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from .messages import check_characters

# The columns that the ground truth is looked for in; the others' names are those of data sets for TRL.
TRUTHS = ("ground_truth", "solution", "answer")
# Larger files are left to `datasets`, which maps them from its cache instead of holding them.
MOST_BYTES = 64 * 2**20
# What `datasets` hands out as it is stored; it decodes others, such as images.
AS_STORED = {"Value", "List", "LargeList", "Sequence"}


class Rows:
    """Rows in memory, which answer what verl's dataset asks of a `datasets.Dataset`.

    verl's dataset reads with `datasets`, which imports pandas and more: a tenth of the time to a first step; and which
    gives each object in a column the keys of all. Here a row has what it was given.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows = with_all_columns(list(rows))
        self.column_names = list(self._rows[0]) if self._rows else []

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(copy.deepcopy, self._rows)

    def __deepcopy__(self, memo: Any) -> "Rows":
        return self  # nobody changes them: what is handed out are copies

    def __getitem__(self, key: Any) -> Any:
        """Return a copy of a row, by its number, or of a column, by its name."""
        if isinstance(key, str) and key in self.column_names:
            return [copy.deepcopy(row[key]) for row in self._rows]
        return copy.deepcopy(self._rows[key]) if isinstance(key, int) else self._whole()[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._whole(), name)

    def select(self, indices: Iterable[int]) -> "Rows":
        """Return the rows with these numbers."""
        return Rows(self._rows[index] for index in indices)

    def _whole(self) -> Any:
        import datasets

        return datasets.Dataset.from_list(self._rows)


def with_all_columns(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows that have every column of any of them; None where a row had no such column."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in columns} for row in rows]


def truth_of(row: dict[str, Any]) -> Any:
    """Return the ground truth of a row that is not in verl's schema; None if it has none."""
    return next((row[name] for name in TRUTHS if row.get(name) is not None), None)


def small_rows(files: Sequence[str]) -> Rows | None:
    """Return the rows of parquet files; None where `datasets` is to read them: they are large, or it decodes some."""
    import pyarrow.parquet

    paths = [Path(file) for file in files]
    if not all(path.suffix == ".parquet" and path.is_file() for path in paths):
        return None
    if sum(path.stat().st_size for path in paths) > MOST_BYTES:
        return None
    opened = [pyarrow.parquet.ParquetFile(path) for path in paths]
    if not all(_is_as_stored(file.schema_arrow) for file in opened):
        return None
    return Rows(row for file in opened for row in file.read().to_pylist())


def _is_as_stored(schema: Any) -> bool:
    said = (schema.metadata or {}).get(b"huggingface", b"").decode()
    return set(re.findall(r'"_type": *"(\w+)"', said)) <= AS_STORED and "arrow.json" not in str(schema)


def read_rows(file: str, key: str) -> list[dict[str, Any]]:
    """Return the rows of a .parquet, .jsonl or .json file, of which there is at least one.

    Args:
        file: its path.
        key: the setting that names it, for messages.

    Raises:
        DataError: it is not there, is none of these, cannot be read, or holds no rows.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise DataError(f"no such file: {file}", f"check {key}")
    if path.suffix.lower() == ".parquet":
        rows = _read_parquet(path, key)
    elif path.suffix.lower() in (".jsonl", ".json"):
        rows = read_json(path, key)
    else:
        stem = file.removesuffix(path.suffix)
        raise DataError(
            f"{file} is neither .parquet nor .jsonl nor .json",
            f"check {key}, or convert it; in Python: pandas.read_csv({file!r}).to_parquet({stem + '.parquet'!r})",
        )
    if not rows:
        raise DataError(f"{file} holds no rows", f"check {key}")
    return rows


def _read_parquet(path: Path, key: str) -> list[dict[str, Any]]:
    import pyarrow.parquet

    try:
        opened = pyarrow.parquet.ParquetFile(path)
        if _is_as_stored(opened.schema_arrow):
            return list(opened.read().to_pylist())
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path} as parquet: {error}", f"check {key}") from error
    import datasets

    return list(datasets.load_dataset("parquet", data_files=str(path))["train"])


def read_json(path: Path, key: str) -> list[dict[str, Any]]:
    """Return the rows of a JSON file.

    Raises:
        DataError: it holds something else; names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # some programs begin their files with a byte order mark
    except UnicodeDecodeError as error:
        number = path.read_bytes()[: error.start].count(b"\n") + 1
        raise DataError(f"{path}:{number}: not UTF-8: {error.reason}", f"convert it, or check {key}") from error
    # Many call JSON lines .json. Lines end with \n and nothing else: str.splitlines would also break at characters that
    # texts hold.
    is_whole = path.suffix.lower() == ".json" and text.lstrip()[:1] == "["
    lines = {1: text} if is_whole else dict(enumerate(text.split("\n"), start=1))
    rows: list[Any] = []
    for number, line in lines.items():
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise DataError(
                f"{path}:{number + error.lineno - 1}: not valid JSON: {error.msg}", f"check {key}"
            ) from error
    if is_whole:
        rows = rows[0]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path} does not hold one object per row", f"check {key}")
    for number, row in enumerate(rows) if "\\ud" in text.lower() else ():
        check_characters(row, f"{path}, row {number}")
    return rows
