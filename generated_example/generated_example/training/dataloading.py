# vextract:template - edit freely; upgrades merge your edits
"""Batches of prompts, in an order that a resumed run continues exactly."""

from typing import Any

import torch
from torch.utils.data import Dataset, RandomSampler, Sampler, SequentialSampler
from torchdata.stateful_dataloader import StatefulDataLoader

from ..data.datasets import DataError
from ..data.rl_dataset import collate_fn


def build_dataloaders(
    config: Any, train_dataset: Dataset, val_dataset: Dataset
) -> tuple[StatefulDataLoader, StatefulDataLoader]:
    """The training and the validation data loader.

    Every process loads the whole global batch: prompts are small, and each then takes its share of them.

    Args:
        config: the whole config; `config.data` is read.
        train_dataset: of prompts; batches have data.train_batch_size of them, an incomplete last one is left out.
        val_dataset: of prompts; batches have data.val_batch_size of them, or all.

    Raises:
        DataError: there are fewer training prompts than one batch needs.
    """
    data = config.data
    workers = data.dataloader_num_workers
    # Generators of their own: starting an epoch must not draw from the global one, or a resumed run would differ.
    train_loader = StatefulDataLoader(
        train_dataset,
        batch_size=data.train_batch_size,
        sampler=_sampler(data, train_dataset),
        num_workers=workers,
        drop_last=True,
        collate_fn=collate_fn,
        generator=torch.Generator(),
    )
    if len(train_loader) == 0:
        raise DataError(
            f"data.train_batch_size is {data.train_batch_size}, and there are {len(train_dataset)} training prompts",  # type: ignore[arg-type]
            f"set data.train_batch_size to {len(train_dataset)} or less",  # type: ignore[arg-type]
        )
    val_loader = StatefulDataLoader(
        val_dataset,
        batch_size=data.val_batch_size or len(val_dataset),  # type: ignore[arg-type]
        shuffle=data.validation_shuffle,
        num_workers=workers,
        collate_fn=collate_fn,
        generator=torch.Generator(),
    )
    return train_loader, val_loader


def _sampler(data: Any, dataset: Dataset) -> Sampler:
    if not data.shuffle:
        return SequentialSampler(dataset)  # type: ignore[arg-type]
    generator = torch.Generator()
    if data.seed is not None:
        generator.manual_seed(data.seed)
    return RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
