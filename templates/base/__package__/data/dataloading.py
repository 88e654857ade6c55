# vextract:template - edit freely
"""Batches of prompts, in an order that a resumed run continues exactly."""

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, Sampler, SequentialSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler

from ..errors import DataError, ProjectError
from ..rewards.scoring import source_of
from ..run.distributed import Ranks
from ..switches import DYNAMIC_SAMPLING, VERL_CHECKPOINTS
from ..training.hooks import HookError, hook_file_of
from ..vendored.data.rl_dataset import collate_fn
from .verl_place import TAKEN, begin_at

Place = tuple[int, int, int]  # epoch, number within it, and the index of the item
OWN_STATE = "dataset of the main process"


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
        """Return the dataset, on rank 0; None on the other processes."""
        if self.loader is None:
            return None
        dataset = self.loader.dataset
        return dataset.prompts if isinstance(dataset, PlacedPrompts) else dataset

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self.loader is not None and isinstance(self.loader.sampler, PlaceSampler):
            self.generator.manual_seed(self.loader.sampler.epoch)  # what workers are seeded by
        batches = iter(self.loader if self.loader is not None else ())
        while (batch := self.ranks.on_driver(lambda: self._next_of(batches))) is not None:
            yield batch

    def _next_of(self, batches: Iterator[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the next batch; None: there is no more. What a dataset raises, or mixes up, becomes a HookError."""
        try:
            batch = next(batches, None)
        except ProjectError:
            raise
        except Exception as error:
            where = hook_file_of(error, type(self.dataset))
            raise HookError(f"the dataset raised {type(error).__name__}: {error}", where) from error
        lengths = {name: len(column) for name, column in (batch or {}).items()}
        most = max(lengths.values(), default=0)
        for name in [name for name in lengths if lengths[name] < most]:
            message = f"{lengths[name]} of {most} items of the dataset have {name!r}: all must, or none"
            raise HookError(message, source_of(type(self.dataset)))
        return batch

    def state_dict(self) -> dict[str, Any] | None:
        """Return where it is; None on other processes than rank 0."""
        if self.loader is None:
            return None
        state = self.loader.state_dict()
        if self.loader.num_workers and hasattr(self.dataset, "state_dict"):  # else the loader saves it
            state[OWN_STATE] = self.dataset.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state_dict` was called."""
        if self.loader is None:
            return
        if VERL_CHECKPOINTS and TAKEN in state:
            begin_at(self, state[TAKEN])
            return
        state = dict(state)
        own = state.pop(OWN_STATE, None)
        if own is not None:
            self.dataset.load_state_dict(own)
        self.loader.load_state_dict(state)


class PlaceSampler(Sampler[Place]):
    """Tells of each index of a sampler in which epoch it is drawn, and as which one; and where it is.

    Args:
        indices: draws the indices of an epoch.

    Attributes:
        epoch: the one that begins next.
    """

    def __init__(self, indices: Sampler[int]) -> None:
        self.indices = indices
        self.epoch = 0
        if VERL_CHECKPOINTS:
            self.first: dict[str, Any] | None = None  # where that one begins, if not at its first item

    def __len__(self) -> int:
        return len(self.indices)  # type: ignore[arg-type]

    def __iter__(self) -> "PlaceIterator":
        self.epoch += 1
        places = PlaceIterator(self, self.epoch - 1)
        if VERL_CHECKPOINTS and self.first is not None:
            first, self.first = self.first, None
            places.load_state_dict(first)
        return places


class PlaceIterator(Iterator[Place]):
    """One epoch of a `PlaceSampler`."""

    def __init__(self, sampler: PlaceSampler, epoch: int) -> None:
        self.sampler = sampler
        self.epoch = epoch
        self.drawn = 0
        self.indices = iter(sampler.indices)

    def __next__(self) -> Place:
        index = next(self.indices)
        self.drawn += 1
        return self.epoch, self.drawn - 1, index

    def state_dict(self) -> dict[str, Any]:
        """Return where it is; torchdata asks for it."""
        state = {"epoch": self.epoch, "drawn": self.drawn}
        return {**state, "indices": self.indices.state_dict()} if hasattr(self.indices, "state_dict") else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.epoch, self.drawn = state["epoch"], state["drawn"]
        self.sampler.epoch = self.epoch + 1
        if hasattr(self.indices, "load_state_dict"):
            self.indices.load_state_dict(state["indices"])
        else:
            for _ in range(self.drawn):
                next(self.indices)


class PlacedPrompts(Dataset):  # type: ignore[type-arg]
    """A dataset whose random numbers depend on the place of a batch alone.

    Not on what else was drawn before, on how many workers read it, or on whether the run was stopped in between.

    Args:
        prompts: the dataset.
        seed: another one gives other numbers.
    """

    def __init__(self, prompts: Dataset, seed: int | None) -> None:
        self.prompts = prompts
        self.seed = seed

    def __len__(self) -> int:
        return len(self.prompts)  # type: ignore[arg-type]

    def __getitem__(self, place: Place) -> Any:
        return self.__getitems__([place])[0]

    def __getitems__(self, places: Sequence[Place]) -> list[Any]:
        """Return the items of a batch."""
        epoch, number, _ = places[0]
        # Without the GPU's, which a worker has no access to.
        before = random.getstate(), np.random.get_state(), torch.get_rng_state()
        seed = zlib.crc32(f"{self.seed} {epoch} {number}".encode())
        random.seed(seed)
        np.random.seed(seed)
        torch.default_generator.manual_seed(seed)
        try:
            indices = [index for _, _, index in places]
            if hasattr(self.prompts, "__getitems__"):
                return list(self.prompts.__getitems__(indices))
            return [self.prompts[index] for index in indices]
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])
            torch.set_rng_state(before[2])

    def __getattr__(self, name: str) -> Any:
        if name == "prompts" or name.startswith("__"):  # a copy that is being made has none yet
            raise AttributeError(name)
        return getattr(self.prompts, name)


def build_dataloaders(
    config: Any,
    ranks: Ranks,
    build_datasets: Callable[[], tuple[Dataset, Dataset]],
    collate: Callable[[Any], Any] = collate_fn,
) -> tuple[SharedLoader, SharedLoader]:
    """Return the training and the validation data loader.

    Every process gets the whole global batch: prompts are small, and each then takes its share of them.

    Args:
        config: the whole config; `config.data` is read.
        ranks: this process among its peers.
        build_datasets: gives datasets of prompts for training and validation; called on rank 0. Training batches have
            data.train_batch_size prompts, an incomplete last one is left out; validation batches data.val_batch_size,
            or all.
        collate: puts the items of a batch together.

    Raises:
        DataError: there are fewer training prompts than one batch needs.
    """
    loaders: list[StatefulDataLoader | None] = [None, None]

    def build() -> list[int]:
        loaders[:] = build_loaders(config.data, *build_datasets(), collate)
        return [len(loader) for loader in loaders if loader is not None]

    lengths = ranks.on_driver(build)
    train_loader, val_loader = map(SharedLoader, loaders, lengths, [ranks, ranks])
    return train_loader, val_loader


def build_loaders(
    data: Any, train_dataset: Dataset, val_dataset: Dataset, collate: Callable[[Any], Any] = collate_fn
) -> tuple[StatefulDataLoader, StatefulDataLoader]:
    """Return the loaders of one process, as `build_dataloaders` says; `data` is the config's section of that name.

    Raises:
        DataError: there are fewer training prompts than one batch needs.
    """
    workers = data.dataloader_num_workers
    # Generators of their own: starting an epoch must not draw from the global one, or a resumed run would differ.
    train_loader = StatefulDataLoader(
        PlacedPrompts(train_dataset, data.seed),
        batch_size=data.gen_batch_size or data.train_batch_size if DYNAMIC_SAMPLING else data.train_batch_size,
        sampler=_sampler(data, train_dataset),
        num_workers=workers,
        drop_last=True,
        collate_fn=collate,
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
        collate_fn=collate,
        generator=torch.Generator(),
    )
    return train_loader, val_loader


def _sampler(data: Any, dataset: Dataset) -> Sampler:
    if not data.shuffle:
        return PlaceSampler(SequentialSampler(dataset))  # type: ignore[arg-type]
    generator = torch.Generator()
    if data.seed is not None:
        generator.manual_seed(data.seed)
    # torchdata's, as upstream does: torch's own has no state, and a resumed run would repeat the first epoch's order.
    return PlaceSampler(RandomSampler(dataset, generator=generator))  # type: ignore[arg-type]
