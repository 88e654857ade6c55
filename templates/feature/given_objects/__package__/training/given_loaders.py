# vextract:template - edit freely
"""Frames, and datasets and data loaders of torch, that a caller brings, besides rows.

Rows as a frame of pandas or polars, or a table of pyarrow.

Tokens, in verl's schema: a dataset of torch whose items have input_ids, attention_mask and position_ids, int64
tensors of (data.max_prompt_length,) with the padding on the left, raw_prompt_ids (a list without padding),
reward_model and data_source.

A data loader of torch around any dataset: its batch size, its workers and whether it shuffles stand for
`data.train_batch_size`, `data.dataloader_num_workers` and `data.shuffle`, for validation `data.val_batch_size` and
`data.validation_shuffle`. Batches are put together by verl's collate function.
"""

from dataclasses import replace
from typing import Any

import torch
from omegaconf import open_dict
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, default_collate

from ..data.dataloading import EncodedPrompts
from ..data.datasets import check_item
from ..data.files import to_builtin
from ..errors import DataError
from ..vendored.data.rl_dataset import collate_fn


def without_loader(value: Any) -> Any:
    """Return the dataset of a data loader; anything else as it is."""
    return value.dataset if isinstance(value, DataLoader) else value


def rows_of_table(value: Any) -> list[dict[str, Any]] | None:
    """Return the rows of a frame of pandas or polars, or of a table of pyarrow; None: the value is none."""
    if hasattr(value, "iterrows"):
        cells = value.astype(object).where(value.notna(), None)
        rows = zip(*(cells.iloc[:, place].tolist() for place in range(cells.shape[1])), strict=True)
        return [dict(zip(map(str, value.columns), to_builtin(row), strict=True)) for row in rows]
    for name in ("to_dicts", "to_pylist"):
        if hasattr(value, name):
            return list(getattr(value, name)())
    return None


def dataset_of_tokens(value: Any, split: str, data: Any, tokenizer: Any) -> Dataset:
    """Return a dataset whose items are tokens already, once the first of them is checked."""
    dataset = EncodedPrompts(value, tokenizer, data)
    item = dataset[0]
    check_item(split, item, type(value))
    for name in ("input_ids", "attention_mask", "position_ids"):
        tensor = item[name]
        if not isinstance(tensor, torch.Tensor) or tensor.shape[-1] != data.max_prompt_length:
            shape = tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else f"(a {type(tensor).__name__})"
            raise DataError(
                f"{name} of the {split} dataset has shape {shape}, and data.max_prompt_length is "
                f"{data.max_prompt_length}: tensors of ({data.max_prompt_length},) are needed, padded on the left",
                "give rows with a `prompt` instead, or set data.max_prompt_length to that length",
            )
    return dataset


def without_loaders(config: Any, given: Any) -> Any:
    """Take the datasets out of data loaders, and what else these say into the config."""
    if isinstance(given.train_dataset, DataLoader):
        loader = given.train_dataset
        shuffle = _check_loader(loader, "train")
        with open_dict(config):
            config.data.train_batch_size, config.data.shuffle = loader.batch_size, shuffle
            config.data.dataloader_num_workers = loader.num_workers
        given = replace(given, train_dataset=loader.dataset)
    if isinstance(given.val_dataset, DataLoader):
        loader = given.val_dataset
        shuffle = _check_loader(loader, "val")
        with open_dict(config):
            config.data.val_batch_size, config.data.validation_shuffle = loader.batch_size, shuffle
        given = replace(given, val_dataset=loader.dataset)
    return given


def _check_loader(loader: DataLoader[Any], split: str) -> bool:
    """Return whether a data loader shuffles.

    Raises:
        DataError: it does something that the run's own loader does not do.
    """
    if isinstance(loader.dataset, IterableDataset):
        return False  # `check_kind` says more
    advice = f"give the dataset itself as {split}_dataset: the config says how batches are made"
    if loader.batch_size is None or type(loader.sampler) not in (SequentialSampler, RandomSampler):
        kind = type(loader.batch_sampler if loader.batch_size is None else loader.sampler).__name__
        raise DataError(f"the {split} loader draws its batches by a {kind} of its own", advice)
    if getattr(loader.sampler, "replacement", False):
        raise DataError(f"the {split} loader draws prompts with replacement", advice)
    if loader.collate_fn not in (default_collate, collate_fn) and not _leaves_as_it_is(loader.collate_fn):
        name = getattr(loader.collate_fn, "__name__", type(loader.collate_fn).__name__)
        raise DataError(
            f"the {split} loader has a collate function of its own, {name}, and batches are put together by verl's",
            "do what it does in the dataset's __getitem__, which returns a row or tokens; and leave collate_fn out",
        )
    return isinstance(loader.sampler, RandomSampler)


def _leaves_as_it_is(function: Any) -> bool:
    """Tell whether a collate function returns the list of items, as `lambda items: items` does."""
    items = [object()]
    try:
        return list(function(items)) == items
    except Exception:  # of any class: it was written for other items
        return False
