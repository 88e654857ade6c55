# vextract:template base/__package__/data/files.py - edit freely
"""Rows of files: parquet, or JSON, one object per line or a list of them."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from ..errors import DataError
from .messages import check_characters
from .small_table import JsonRows

# The columns that the ground truth is looked for in; the others' names are those of data sets for TRL.
TRUTHS = ("ground_truth", "solution", "answer")


def truth_of(row: dict[str, Any]) -> Any:
    """Return the ground truth of a row that is not in verl's schema; None if it has none."""
    return next((row[name] for name in TRUTHS if row.get(name) is not None), None)


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
        try:
            rows = JsonRows(pyarrow.parquet.ParquetFile(path).read()).rows()
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot read {file} as parquet: {error}", f"check {key}") from error
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


def with_all_columns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows that have every column of any of them: pyarrow and `datasets` take those of the first row alone."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in columns} for row in rows]


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
