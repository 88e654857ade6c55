# vextract:template base/__package__/training/dataloading.py - edit freely
"""Batches of prompts, in an order that a resumed run continues exactly."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import Dataset, Sampler, SequentialSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler

from ..data.datasets import DataError
from ..data.rl_dataset import collate_fn
from .distributed import Ranks


class SharedLoader:
    """A data loader of rank 0, whose batches every process gets.

    So all have the same batches, whatever a dataset draws or reads; and only rank 0 needs the data on its disk.

    Args:
        loader: on rank 0.
        length: how many batches it has.
        ranks: this process among its peers. Every one must iterate; only rank 0 has a dataset and a state.

    Attributes:
        generator: of the random numbers that an epoch starts with.
    """

    def __init__(self, loader: StatefulDataLoader | None, length: int, ranks: Ranks) -> None:
        self.loader = loader
        self.length = length
        self.ranks = ranks
        self.generator = torch.Generator() if loader is None else loader.generator

    @property
    def dataset(self) -> Any:
        """The dataset, on rank 0; None on the other processes."""
        return None if self.loader is None else self.loader.dataset

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        batches = iter(self.loader if self.loader is not None else ())
        while (batch := self.ranks.on_driver(lambda: next(batches, None))) is not None:
            yield batch

    def state_dict(self) -> dict[str, Any] | None:
        """Where it is; None on other processes than rank 0."""
        return None if self.loader is None else self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state_dict` was called."""
        if self.loader is not None:
            self.loader.load_state_dict(state)


def build_dataloaders(
    config: Any, ranks: Ranks, build_datasets: Callable[[], tuple[Dataset, Dataset]]
) -> tuple[SharedLoader, SharedLoader]:
    """The training and the validation data loader.

    Every process gets the whole global batch: prompts are small, and each then takes its share of them.

    Args:
        config: the whole config; `config.data` is read.
        ranks: this process among its peers.
        build_datasets: gives datasets of prompts for training and validation; called on rank 0. Training batches have
            data.train_batch_size prompts, an incomplete last one is left out; validation batches data.val_batch_size,
            or all.

    Raises:
        DataError: there are fewer training prompts than one batch needs.
    """
    loaders: list[StatefulDataLoader | None] = [None, None]

    def build() -> list[int]:
        loaders[:] = build_loaders(config.data, *build_datasets())
        return [len(loader) for loader in loaders if loader is not None]

    lengths = ranks.on_driver(build)
    train_loader, val_loader = map(SharedLoader, loaders, lengths, [ranks, ranks])
    return train_loader, val_loader


def build_loaders(
    data: Any, train_dataset: Dataset, val_dataset: Dataset
) -> tuple[StatefulDataLoader, StatefulDataLoader]:
    """The loaders of one process, as `build_dataloaders` says; `data` is the config's section of that name.

    Raises:
        DataError: there are fewer training prompts than one batch needs.
    """
    workers = data.dataloader_num_workers
    # Generators of their own: starting an epoch must not draw from the global one, or a resumed run would differ.
    train_loader = StatefulDataLoader(
        train_dataset,
        batch_size=data.gen_batch_size or data.train_batch_size,
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
    # torchdata's, as upstream does: torch's own has no state, and a resumed run would repeat the first epoch's order.
    return RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
