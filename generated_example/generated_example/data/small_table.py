# vextract:template base/__package__/data/small_table.py - edit freely
"""Rows that are few and of plain types, held in memory.

verl's dataset reads with `datasets`, which imports pandas and more: a tenth of the time to a first step. pyarrow by
itself gives the same rows.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

# Larger files are left to `datasets`, which maps them from its cache instead of holding them.
MOST_BYTES = 64 * 2**20
# What `datasets` hands out as it is stored; it decodes others, such as images.
AS_STORED = {"Value", "List", "LargeList", "Sequence"}


class SmallTable:
    """Answers what verl's dataset asks of a `datasets.Dataset` about text; what else is asked, that class answers."""

    def __init__(self, table: pyarrow.Table, rows: Sequence[int] | None = None) -> None:
        self._table = table
        self._rows = range(table.num_rows) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        """Return a row by its number, or the values of a column by its name, made anew each time."""
        if isinstance(key, str) and key in self._table.column_names:
            column = self._table[key].to_pylist()
            return [column[row] for row in self._rows]
        if isinstance(key, int) and 0 <= key < len(self):
            return self._table.slice(self._rows[key], 1).to_pylist()[0]
        return self._whole()[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_rows" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._whole(), name)

    @property
    def column_names(self) -> list[str]:
        """Return the names of the columns."""
        names: list[str] = self._table.column_names
        return names

    def select(self, indices: Iterable[int]) -> "SmallTable":
        """Return the rows with these numbers."""
        return SmallTable(self._table, [self._rows[index] for index in indices])  # pyarrow would import pandas

    def _whole(self) -> Any:
        import datasets

        return datasets.Dataset(datasets.table.InMemoryTable(self._table)).select(self._rows)


def read_small(files: list[str]) -> SmallTable | None:
    """Return the rows of parquet files; None where `datasets` must read them.

    That is where they are large, differ in their columns, or have a column that is not text, numbers, truth values,
    or lists and structures of these.
    """
    paths = [Path(file) for file in files]
    if not all(path.suffix == ".parquet" and path.is_file() for path in paths):
        return None
    if not paths or sum(path.stat().st_size for path in paths) > MOST_BYTES:
        return None
    schemas = [pyarrow.parquet.read_schema(path) for path in paths]
    alike = all(schema.equals(schemas[0]) for schema in schemas)
    if not alike or not all(_is_as_stored(schema) for schema in schemas):
        return None
    tables = [pyarrow.parquet.ParquetFile(path).read().replace_schema_metadata() for path in paths]
    return SmallTable(pyarrow.concat_tables(tables))


def table_of_rows(rows: list[dict[str, Any]]) -> Any:
    """Return what `datasets.Dataset.from_list` makes of rows: a SmallTable where all is of plain types."""
    try:
        # The first row says which columns there are, as `datasets` has it.
        table = pyarrow.table({name: [row.get(name) for row in rows] for name in rows[0]} if rows else {})
        if all(_is_plain(field.type) for field in table.schema):
            return SmallTable(table)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        pass  # `datasets` knows more types, and says what is wrong
    import datasets

    return datasets.Dataset.from_list(rows)


def _is_as_stored(schema: pyarrow.Schema) -> bool:
    said = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    return _kinds(said) <= AS_STORED and all(_is_plain(field.type) for field in schema)


def _kinds(said: Any) -> set[str]:
    """Return the kinds of features that `datasets` wrote beside a schema."""
    inner = said.values() if isinstance(said, dict) else said if isinstance(said, list) else ()
    kinds = {said["_type"]} if isinstance(said, dict) and isinstance(said.get("_type"), str) else set()
    return kinds.union(*(_kinds(one) for one in inner))


def _is_plain(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    if types.is_list(kind) or types.is_large_list(kind):
        return _is_plain(kind.value_type)
    if types.is_struct(kind):
        return all(_is_plain(field.type) for field in kind)
    text = types.is_string(kind) or types.is_large_string(kind)
    return text or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)
