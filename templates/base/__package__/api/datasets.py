# vextract:template - edit freely
"""Prompts that a caller brings: what a `train_dataset` or a `val_dataset` may be.

Rows, in verl's schema or with a `prompt` (text or messages) and a `ground_truth`: a list of dictionaries, a
`datasets.Dataset`, a pandas frame; names of files, as `data.train_files` has them; or a torch dataset whose items are
tokens, in verl's schema.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import open_dict
from torch.utils.data import Dataset

from ..data.dataloading import SharedLoader, build_loaders
from ..data.datasets import DataError, build_datasets, data_section, dataset_of_rows
from ..run.distributed import Ranks
from ..vendored.data.rl_dataset import collate_fn
from .given import Given

KINDS = "a list of dictionaries, a datasets.Dataset, a pandas frame, names of files, or a torch dataset of tokens"


def build_given_datasets(config: Any, tokenizer: Any, given: Given) -> tuple[Dataset, Dataset]:
    """Return the training and the validation dataset: those that are given, else the config's.

    Where prompts for training are given and none for validation, there is no validation: the config says so then.

    Raises:
        DataError: the data cannot be used.
    """
    if given.train_dataset is None and given.val_dataset is None:
        return build_datasets(config, tokenizer)
    if given.train_dataset is None:
        raise DataError("a val_dataset is given, and no train_dataset", "give both, or name files in the config")
    needs_truth = given.reward_fn is None
    train = dataset_of(given.train_dataset, "train", config, tokenizer, needs_truth=needs_truth)
    if given.val_dataset is not None:
        return train, dataset_of(given.val_dataset, "val", config, tokenizer, needs_truth=needs_truth)
    with open_dict(config):
        config.trainer.test_freq, config.trainer.val_before_train = -1, False
    return train, train


def dataset_of(value: Any, split: str, config: Any, tokenizer: Any, *, needs_truth: bool = True) -> Dataset:
    """Return a dataset of prompts as tokens from what a caller brings.

    Args:
        value: see the top of this module.
        split: train or val, for messages.
        config: the whole config.
        tokenizer: its chat template turns messages into tokens.
        needs_truth: whether a row without ground_truth is an error.

    Raises:
        DataError: it is none of these, or cannot be used.
    """
    if isinstance(value, (str, Path)) or _is_list_of(value, (str, Path)):
        files = [str(file) for file in ([value] if isinstance(value, (str, Path)) else value)]
        with_files = config.copy()
        with_files.data.train_files = with_files.data.val_files = files
        return build_datasets(with_files, tokenizer)[split == "val"]
    if isinstance(value, Dataset) and not _is_table(value):
        return value
    rows = value.to_dict(orient="records") if hasattr(value, "iterrows") else value
    if not (_is_table(value) or hasattr(value, "iterrows") or _is_list_of(value, Mapping)):
        raise DataError(f"the {split} dataset is of type {type(value).__name__}", f"give {KINDS}")
    return dataset_of_rows(rows, split, data_section(config), tokenizer, needs_truth=needs_truth)


def loader_of(value: Any, config: Any, tokenizer: Any, ranks: Ranks) -> SharedLoader:
    """Return batches of the prompts in `value`, as validation has them. Every process must call this."""
    loaders: list[Any] = []

    def build() -> int:
        dataset = dataset_of(value, "val", config, tokenizer, needs_truth=False)
        data = config.data.copy()
        data.train_batch_size, data.gen_batch_size = 1, None
        loaders.append(build_loaders(data, dataset, dataset)[1])
        return len(loaders[0])

    length = ranks.on_driver(build)
    return SharedLoader(loaders[0] if loaders else None, length, ranks)


def batch_of(rows: Sequence[Mapping[str, Any]], config: Any, tokenizer: Any) -> dict[str, Any]:
    """Return rows as a batch of the data loader: tensors (rows, max_prompt_length), and arrays of the other columns."""
    dataset: Any = dataset_of(rows, "train", config, tokenizer, needs_truth=False)
    batch: dict[str, Any] = collate_fn([dataset[index] for index in range(len(dataset))])
    return batch


def _is_table(value: Any) -> bool:
    """Tell whether this is a `datasets.Dataset`."""
    return hasattr(value, "column_names") and hasattr(value, "to_list")


def _is_list_of(value: Any, kind: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    return is_list and all(isinstance(item, kind) for item in value)
