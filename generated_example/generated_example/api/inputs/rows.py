# vextract:template base/__package__/api/inputs/rows.py - edit freely
"""Rows of prompts, from whatever a caller has them in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import IterableDataset

from ...data.messages import plain
from ...data.rows import RowsDataset
from ...errors import DataError, ProjectError
from ...training.hook_errors import HookError, hook_file_of

KINDS = "a list of dictionaries, a datasets.Dataset, a pandas frame, names of files, or torch's Dataset or DataLoader"
FILES = (".parquet", ".jsonl", ".json")
# Columns in which a row stands that tokens were made of already, or that they will be in.
TOKENS = ("input_ids", "attention_mask", "position_ids", "raw_prompt_ids")


def files_of(value: Any, split: str) -> list[str] | None:
    """Return the names of files; None: the value is something else.

    Raises:
        DataError: they are texts, and no names of files that can be read.
    """
    names = [value] if isinstance(value, str | Path) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str | Path) for name in names):
        return None
    for name in map(str, names):
        if not name.lower().endswith(FILES) and not Path(name).exists():
            raise DataError(
                f"the {split} dataset is {name!r:.80}, which is no file",
                f"names of files end in {', '.join(FILES)}; a prompt is a row, [{{'prompt': '...'}}]; "
                "and a data set of the hub is read by datasets.load_dataset(...)['train']",
            )
    return [str(name) for name in names]


def rows_of(value: Any, split: str, settings: Any, prompt_key: str) -> list[dict[str, Any]] | None:
    """Return rows; None: the value is a torch dataset of tokens.

    Args:
        value: anything but names of files.
        split: train or val.
        settings: the config's `data.env`.
        prompt_key: the column of the prompts.

    Raises:
        DataError: it is none of the kinds, or holds nothing.
        HookError: a dataset of the caller's raised.
    """
    check_kind(value, split)
    if isinstance(value, RowsDataset):
        return value.rows(settings=settings)
    try:
        if (listed := _of_table(value)) is not None:
            return listed
        return _of_items(value, split, prompt_key)
    except ProjectError:
        raise
    except Exception as error:
        where = hook_file_of(error, type(value))
        raise HookError(f"the {split} dataset raised {type(error).__name__}: {error}", where) from error


def _of_table(value: Any) -> list[dict[str, Any]] | None:
    """Return the rows of a table: a datasets.Dataset, a frame of pandas or polars, a table of pyarrow."""
    if hasattr(value, "iterrows"):
        cells = value.astype(object).where(value.notna(), None)
        rows = zip(*(cells.iloc[:, place].tolist() for place in range(cells.shape[1])), strict=True)
        return [dict(zip(map(str, value.columns), plain(row), strict=True)) for row in rows]
    if hasattr(value, "column_names") and hasattr(value, "with_format"):
        return list(value.with_format(None).to_list())
    for name in ("to_dicts", "to_pylist"):
        if hasattr(value, name):
            return list(getattr(value, name)())
    return None


def _of_items(value: Any, split: str, prompt_key: str) -> list[dict[str, Any]] | None:
    if len(value) == 0:
        raise DataError(f"the {split} dataset is empty", f"check what is given as {split}_dataset")
    items = [value[index] for index in range(len(value))] if isinstance(value, list | tuple) else [value[0]]
    for number, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise DataError(
                f"item {number} of the {split} dataset is of type {type(item).__name__}, not a dictionary",
                "an item is a row, {'prompt': ..., 'ground_truth': ...}; or tokens, as verl's datasets give them",
            )
    if "input_ids" in items[0]:
        return None
    if not isinstance(value, list | tuple):
        items = [value[index] for index in range(len(value))]
    return [_row(item, prompt_key) for item in items]


def _row(item: Mapping[str, Any], prompt_key: str) -> dict[str, Any]:
    """Return a row of an item; verl's newer datasets give the messages as raw_prompt, and a tensor beside them."""
    row = {name: value for name, value in item.items() if not isinstance(value, torch.Tensor)}
    if "raw_prompt" in row:
        row[prompt_key] = row.pop("raw_prompt")
    return plain(row)  # type: ignore[no-any-return]


def check_kind(value: Any, split: str) -> None:
    """Check that this is a dataset of some kind.

    Raises:
        DataError: it is not; says what to do with what is close to one.
    """
    name = f"the {split} dataset is"
    if isinstance(value, Mapping):
        tables = [key for key, part in value.items() if hasattr(part, "column_names")]
        if tables:
            raise DataError(f"{name} a dictionary of datasets: {', '.join(map(str, tables))}", "give one of them")
        raise DataError(f"{name} a dictionary of columns", "give datasets.Dataset.from_dict(...), or a list of rows")
    if isinstance(value, IterableDataset) or (hasattr(value, "take") and not hasattr(value, "__len__")):
        raise DataError(
            f"{name} a stream ({type(value).__name__}), and prompts are shuffled and counted",
            "give a part of it: list(stream.take(1000)), or list(itertools.islice(stream, 1000))",
        )
    if hasattr(value, "__iter__") and not hasattr(value, "__getitem__"):
        raise DataError(f"{name} of type {type(value).__name__}, which can be read only once", "give list(...) of it")
    if isinstance(value, str | bytes) or not (hasattr(value, "__len__") and hasattr(value, "__getitem__")):
        raise DataError(f"{name} of type {type(value).__name__}", f"give {KINDS}")
