# vextract:template - edit freely
"""Prompts of any kind that a caller brings: what a `train_dataset` or a `val_dataset` may be besides rows.

Names of files, as `data.train_files` has them; a dataset of torch whose items are rows; and frames, tokens and data
loaders: see `given_loaders.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset

from ..data.dataloading import SharedLoader, build_loaders
from ..data.datasets import GIVEN, data_section, dataset_of_files, dataset_of_rows
from ..data.files import to_builtin
from ..data.rows import RowsDataset
from ..errors import DataError
from ..hooks import running_hook
from ..run.distributed import Ranks
from ..switches import DYNAMIC_SAMPLING
from ..vendored.data.rl_dataset import collate_fn
from .given_loaders import dataset_of_tokens, rows_of_table, without_loader

KINDS = "names of files, a list of dictionaries, a datasets.Dataset, or torch's Dataset of rows"
FILES = (".parquet", ".jsonl", ".json")


def given_dataset_of(value: Any, split: str, config: Any, tokenizer: Any, *, needs_truth: bool = True) -> Dataset:
    """Return a dataset of prompts as tokens from what a caller brings.

    Args:
        value: see the top of this module, and of `given.py`.
        split: train or val, for messages; or GIVEN.
        config: the whole config.
        tokenizer: its chat template turns messages into tokens.
        needs_truth: whether a row without ground_truth is an error.

    Raises:
        DataError: it is none of these, or cannot be used.
        HookError: a dataset of the caller's raised.
    """
    data = data_section(config)
    if split == GIVEN:
        data.filter_overlong_prompts = False
    value = without_loader(value)
    files = files_of(value, split)
    if files is not None:
        return dataset_of_files(files, split, data, tokenizer)
    rows = rows_of(value, split, data.get("env") or {}, data.get("prompt_key", "prompt"))
    if rows is not None:
        return dataset_of_rows(rows, split, data, tokenizer, needs_truth=needs_truth)
    return dataset_of_tokens(value, split, data, tokenizer)


def loader_of(value: Any, config: Any, tokenizer: Any, ranks: Ranks) -> SharedLoader:
    """Return batches of the prompts in `value`, as validation has them. Every process must call this."""
    loaders: list[Any] = []

    def build() -> int:
        dataset = given_dataset_of(value, "val", config, tokenizer, needs_truth=False)
        data = config.data.copy()
        data.train_batch_size = 1
        if DYNAMIC_SAMPLING:
            data.gen_batch_size = None
        loaders.append(build_loaders(data, dataset, dataset)[1])
        return len(loaders[0])

    length = ranks.on_driver(build)
    return SharedLoader(loaders[0] if loaders else None, length, ranks)


def batch_of(rows: Sequence[Mapping[str, Any]], config: Any, tokenizer: Any) -> dict[str, Any]:
    """Return rows as a batch of the data loader: tensors (rows, max_prompt_length), and arrays of the other columns.

    All of them, in their order: what chooses among the prompts of files does not choose among these.

    Raises:
        DataError: a row cannot be used, or is too long.
    """
    dataset: Any = given_dataset_of(rows, GIVEN, config, tokenizer, needs_truth=False)
    batch: dict[str, Any] = collate_fn([dataset[index] for index in range(len(dataset))])
    return batch


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
    with running_hook(f"the {split} dataset", type(value)):
        if (rows := rows_of_table(value)) is not None:
            return rows
        if hasattr(value, "column_names") and hasattr(value, "with_format"):
            return list(value.with_format(None).to_list())
        if len(value) == 0:
            raise DataError(f"the {split} dataset is empty", f"check what is given as {split}_dataset")
        items = value if isinstance(value, list | tuple) else [value[0]]
        for number, item in enumerate(items):
            if not isinstance(item, Mapping):
                raise DataError(
                    f"item {number} of the {split} dataset is of type {type(item).__name__}, not a dictionary",
                    "an item is a row, {'prompt': ..., 'ground_truth': ...}",
                )
        if "input_ids" in items[0]:
            return None
        return [_row(value[index], prompt_key) for index in range(len(value))]


def _row(item: Mapping[str, Any], prompt_key: str) -> dict[str, Any]:
    """Return a row of an item; verl's newer datasets give the messages as raw_prompt, and a tensor beside them."""
    row = {name: value for name, value in item.items() if not isinstance(value, torch.Tensor)}
    if "raw_prompt" in row:
        row[prompt_key] = row.pop("raw_prompt")
    return to_builtin(row)  # type: ignore[no-any-return]


def check_kind(value: Any, split: str) -> None:
    """Check that this is a dataset of some kind.

    Raises:
        DataError: it is not; says what to do with what is close to one.
    """
    if files_of(value, split) is not None:
        return
    hint = f"give {KINDS}"
    if isinstance(value, Mapping):
        hint = "give one dataset of it; of columns, datasets.Dataset.from_dict(...)"
    elif isinstance(value, IterableDataset) or (isinstance(value, Iterable) and not hasattr(value, "__len__")):
        hint = f"prompts are shuffled and counted: give a part of it, list(itertools.islice(it, 1000)), or {KINDS}"
    elif hasattr(value, "__getitem__") and not isinstance(value, str | bytes):
        return
    raise DataError(f"the {split} dataset is of type {type(value).__name__}", hint)
