# vextract:template base/__package__/data/small_table.py - edit freely
"""Rows that are few and of plain types, held in memory.

verl's dataset reads with `datasets`, which imports pandas and more: a tenth of the time to a first step. pyarrow by
itself gives the same rows, and makes of rows that are alike what they are; its first array of them imports pandas too.
"""

import copy
import importlib.metadata
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

# Larger files are left to `datasets`, which maps them from its cache instead of holding them.
MOST_BYTES = 64 * 2**20
# What `datasets` hands out as it is stored; it decodes others, such as images.
AS_STORED = {"Value", "List", "LargeList", "Sequence", "Json"}


class ArrowRows:
    """The rows of a table of pyarrow."""

    def __init__(self, table: pyarrow.Table) -> None:
        self.table = table
        self.num_rows: int = table.num_rows
        self.column_names: list[str] = table.column_names

    def column(self, name: str) -> list[Any]:
        """Return the values of a column, made anew."""
        values: list[Any] = self.table[name].to_pylist()
        return values

    def row(self, index: int) -> dict[str, Any]:
        """Return a row, made anew."""
        row: dict[str, Any] = self.table.slice(index, 1).to_pylist()[0]
        return row


class ExactRows:
    """Rows of which `are_alike` or `is_json` says that they may be handed out as they are."""

    def __init__(self, names: list[str], rows: Sequence[dict[str, Any]]) -> None:
        self.column_names = names
        self.num_rows = len(rows)
        self._rows = [copy.deepcopy({name: row.get(name) for name in names}) for row in rows]

    @property
    def table(self) -> pyarrow.Table:
        """Return them as a table of pyarrow."""
        return exact_table({name: self.column(name) for name in self.column_names})

    def column(self, name: str) -> list[Any]:
        """Return the values of a column, made anew."""
        return [copy.deepcopy(row[name]) for row in self._rows]

    def row(self, index: int) -> dict[str, Any]:
        """Return a row, made anew."""
        return copy.deepcopy(self._rows[index])


class JsonRows(ArrowRows):
    """The rows of a table in which some columns are or hold JSON (`exact_table`): each row has what it was given."""

    def __init__(self, table: pyarrow.Table) -> None:
        super().__init__(table)
        self._kinds = {field.name: field.type for field in table.schema if has_json(field.type)}

    def column(self, name: str) -> list[Any]:
        """Return the values of a column, made anew."""
        values = super().column(name)
        return [_read(value, self._kinds[name]) for value in values] if name in self._kinds else values

    def row(self, index: int) -> dict[str, Any]:
        """Return a row, made anew."""
        return self._whole_row(super().row(index))

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows, made anew."""
        return [self._whole_row(row) for row in self.table.to_pylist()]

    def _whole_row(self, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, **{name: _read(row[name], kind) for name, kind in self._kinds.items()}}


class SmallTable:
    """Answers what verl's dataset asks of a `datasets.Dataset` about text; what else is asked, that class answers."""

    def __init__(self, table: ArrowRows | ExactRows, rows: Sequence[int] | None = None) -> None:
        self._table = table
        self._rows = range(table.num_rows) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        """Return a row by its number, or the values of a column by its name, made anew each time."""
        if isinstance(key, str) and key in self._table.column_names:
            column = self._table.column(key)
            return [column[row] for row in self._rows]
        if isinstance(key, int) and 0 <= key < len(self):
            return self._table.row(self._rows[key])
        return self._whole()[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_rows" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._whole(), name)

    @property
    def column_names(self) -> list[str]:
        """Return the names of the columns."""
        return self._table.column_names

    def select(self, indices: Iterable[int]) -> "SmallTable":
        """Return the rows with these numbers."""
        return SmallTable(self._table, [self._rows[index] for index in indices])  # pyarrow would import pandas

    def _whole(self) -> Any:
        import datasets

        return datasets.Dataset(datasets.table.InMemoryTable(self._table.table)).select(self._rows)


def read_small(files: list[str]) -> SmallTable | None:
    """Return the rows of parquet files; None where `datasets` must read them.

    That is where they are large, differ in their columns, or have a column that is not text, numbers, truth values,
    JSON, or lists and structures of these.
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
    whole = pyarrow.concat_tables(tables)
    return SmallTable(JsonRows(whole) if any(has_json(field.type) for field in whole.schema) else ArrowRows(whole))


def table_of_rows(rows: list[dict[str, Any]]) -> Any:
    """Return rows as a table: a SmallTable where all is of plain types, else what `datasets` makes of them.

    Objects and lists of several forms in one column stay as they are: `datasets` would give each the keys of all.
    """
    names = list(rows[0]) if rows else []  # the first row says which columns there are, as `datasets` has it
    columns = {name: [row.get(name) for row in rows] for name in names}
    if rows and all(are_alike(values) or is_json(values) for values in columns.values()):
        return SmallTable(ExactRows(names, rows))
    try:
        table = pyarrow.table(columns)
        if all(_is_plain(field.type) for field in table.schema):
            return SmallTable(ArrowRows(table))
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        pass  # `datasets` knows more types, and says what is wrong
    import datasets

    return datasets.Dataset.from_list(rows)


def are_alike(values: Sequence[Any]) -> bool:
    """Tell whether values, but for None, have one plain type, and those within them the same keys and types too."""
    there = [value for value in values if value is not None]
    kinds = {type(value) for value in there}
    kind = next(iter(kinds), None)
    if len(kinds) > 1:
        return False
    if kind is dict:
        keys = tuple(there[0])
        same = all(tuple(value) == keys for value in there) and all(type(key) is str for key in keys)
        return bool(keys) and same and all(are_alike([value[key] for value in there]) for key in keys)
    if kind is list:
        return are_alike([item for value in there for item in value])
    if kind is int:
        return all(-(2**63) <= value < 2**63 for value in there)
    if kind is str:
        return all(value.isascii() or _is_text(value) for value in there)
    return kind in (None, bool, float)


def is_json(values: Sequence[Any]) -> bool:
    """Tell whether values, but for None, are objects of JSON, or lists of JSON, of whatever forms."""
    kinds = {type(value) for value in values if value is not None}
    return kinds in ({dict}, {list}) and all(map(_is_json, values))


def exact_table(columns: dict[str, list[Any]]) -> pyarrow.Table:
    """Return columns as a table. Objects and lists of several forms in one are JSON in it, and stay as they are.

    Raises:
        ArrowException: a column has values of several types.
    """
    return pyarrow.table(
        {name: _as_json(values) if _is_kept_as_json(values) else values for name, values in columns.items()}
    )


def _as_json(values: Sequence[Any]) -> pyarrow.Array:
    """Return values of JSON as an array from which each comes back as it is; `datasets` reads it from 4.8 on."""
    texts = [None if value is None else json.dumps(value) for value in values]
    return pyarrow.array(texts, pyarrow.string()).cast(pyarrow.json_(pyarrow.string()))


def _is_kept_as_json(values: Sequence[Any]) -> bool:
    """Tell whether a column is JSON in a table: its values have several forms, and what is installed knows such."""
    if are_alike(values) or not is_json(values):
        return False
    version = importlib.metadata.version("datasets").split(".")
    return hasattr(pyarrow, "json_") and tuple(map(int, version[:2])) >= (4, 8)


def _is_json(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and _is_text(key) and _is_json(inner) for key, inner in value.items())
    if kind is list:
        return all(map(_is_json, value))
    return value is None or kind in (bool, int, float) or (kind is str and _is_text(value))


def _is_json_type(kind: pyarrow.DataType) -> bool:
    return getattr(kind, "extension_name", "") == "arrow.json"


def has_json(kind: pyarrow.DataType) -> bool:
    """Tell whether a type is JSON, or lists or structures that hold some."""
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    return _is_json_type(kind) or any(map(has_json, inner))


def _read(value: Any, kind: pyarrow.DataType) -> Any:
    """Return a value of a type that `has_json`, with what the JSON in it says."""
    if value is None or not has_json(kind):
        return value
    if _is_json_type(kind):
        return json.loads(value)
    if isinstance(value, list):
        return [_read(item, kind.value_type) for item in value]
    return {name: _read(inner, kind.field(name).type) for name, inner in value.items()}


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a pair
        return False
    return True


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
    if _is_json_type(kind):
        return True
    if types.is_list(kind) or types.is_large_list(kind):
        return _is_plain(kind.value_type)
    if types.is_struct(kind):
        return all(_is_plain(field.type) for field in kind)
    text = types.is_string(kind) or types.is_large_string(kind)
    return text or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)
