# vextract:template base/__package__/api/inputs/datasets.py - edit freely
"""Prompts that a caller brings: what a `train_dataset` or a `val_dataset` may be.

Rows: a list of dictionaries, a `datasets.Dataset`, a frame of pandas or polars, a table of pyarrow, a dataset of torch
whose items are rows; or names of files, as `data.train_files` has them. Their columns:

    prompt          text, or messages: [{"role": "user", "content": "..."}]; `data.prompt_key` names another column
    ground_truth    what the reward compares with; or `solution`, `answer`, or verl's `reward_model`. Where a reward_fn
                    scores, or an environment that is given, it may be left out
    data_source     names the validation metrics of these rows; by default all are of one source
    extra_info      a dictionary, which verl's reward functions and the environments' `reset` get
    others          are kept: a reward_fn that names them gets them

Tokens, in verl's schema: a dataset of torch whose items have input_ids, attention_mask and position_ids, int64
tensors of (data.max_prompt_length,) with the padding on the left, raw_prompt_ids (a list without padding),
reward_model and data_source.

States of an environment, with the feature given_objects: `EnvDataset(environment, tokenizer)`. Its rewards are the
environment's then, unless a reward_fn is given.

A data loader of torch around any of these: its batch size, its workers and whether it shuffles stand for
`data.train_batch_size`, `data.dataloader_num_workers` and `data.shuffle`, for validation `data.val_batch_size` and
`data.validation_shuffle`. Batches are put together by verl's collate function.

A stream (an IterableDataset, a generator) is refused: prompts are counted and shuffled, in an order that a run which
was stopped goes on with.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from ...data.dataloading import SharedLoader, build_loaders
from ...data.datasets import GIVEN, build_datasets, check_item, data_section, dataset_of_files, dataset_of_rows
from ...data.encoding import encoded
from ...errors import DataError, DataProblems, Problem
from ...run.distributed import Ranks
from ...vendored.data.rl_dataset import collate_fn
from .given import Given
from .rows import files_of, rows_of


def build_given_datasets(config: Any, tokenizer: Any, given: Given) -> tuple[Dataset, Dataset]:
    """Return the training and the validation dataset: those that are given, else the config's.

    Where prompts for training are given and none for validation, these stand for them, and `settled` has turned
    validation off.

    Raises:
        DataError: the data cannot be used.
        HookError: a dataset or an environment raised.
    """
    needs_truth = given.reward_fn is None
    sources = {"train": given.train_dataset, "val": given.val_dataset}
    if sources["train"] is None:
        return build_datasets(config, tokenizer)
    if sources["val"] is None:
        sources["val"] = config.data.val_files
    problems: list[Problem] = []
    more: dict[str, Any] = {"needs_truth": needs_truth, "problems": problems}
    given_ones = {split: source for split, source in sources.items() if source is not None}
    datasets = {split: dataset_of(source, split, config, tokenizer, **more) for split, source in given_ones.items()}
    if problems:
        raise DataProblems(problems, len(datasets["train"]))  # type: ignore[arg-type]
    return datasets["train"], datasets.get("val", datasets["train"])


def dataset_of(
    value: Any,
    split: str,
    config: Any,
    tokenizer: Any,
    *,
    needs_truth: bool = True,
    problems: list[Problem] | None = None,
) -> Dataset:
    """Return a dataset of prompts as tokens from what a caller brings.

    Args:
        value: see the top of this module; of a data loader, its dataset.
        split: train or val, for messages; or GIVEN.
        config: the whole config.
        tokenizer: its chat template turns messages into tokens.
        needs_truth: whether a row without ground_truth is an error.
        problems: takes what other settings would mend; None: it is raised.

    Raises:
        DataError: it is none of these, or cannot be used.
        HookError: a dataset of the caller's raised.
    """
    data = data_section(config)
    if split == GIVEN:
        data.filter_overlong_prompts = False
    value = value.dataset if isinstance(value, DataLoader) else value
    files = files_of(value, split)
    if files is not None:
        return dataset_of_files(files, split, data, tokenizer, problems)
    rows = rows_of(value, split, data.get("env") or {}, data.get("prompt_key", "prompt"))
    if rows is not None:
        return dataset_of_rows(rows, split, data, tokenizer, needs_truth=needs_truth, problems=problems)
    return _of_tokens(value, split, data, tokenizer)


def _of_tokens(value: Any, split: str, data: Any, tokenizer: Any) -> Dataset:
    """Return a dataset whose items are tokens already, once the first of them is checked."""
    dataset = encoded(value, tokenizer, data)
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


def loader_of(value: Any, config: Any, tokenizer: Any, ranks: Ranks) -> SharedLoader:
    """Return batches of the prompts in `value`, as validation has them. Every process must call this."""
    loaders: list[Any] = []

    def build() -> int:
        dataset = dataset_of(value, "val", config, tokenizer, needs_truth=False)
        data = config.data.copy()
        data.train_batch_size = 1
        loaders.append(build_loaders(data, dataset, dataset)[1])
        return len(loaders[0])

    length = ranks.on_driver(build)
    return SharedLoader(loaders[0] if loaders else None, length, ranks)


def batch_of(rows: Sequence[Mapping[str, Any]], config: Any, tokenizer: Any) -> dict[str, Any]:
    """Return rows as a batch of the data loader: tensors (rows, max_prompt_length), and arrays of the other columns.

    All of them, in their order: what chooses among the prompts of files does not choose among these.

    Raises:
        DataError: a row cannot be used, or is too long.
        HookError: a dataset of the caller's raised.
    """
    dataset: Any = dataset_of(rows, GIVEN, config, tokenizer, needs_truth=False)
    batch: dict[str, Any] = collate_fn([dataset[index] for index in range(len(dataset))])
    return batch
