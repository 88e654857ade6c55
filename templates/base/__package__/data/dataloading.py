# vextract:template - edit freely
"""Batches of prompts, in an order that a resumed run continues exactly."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch.utils.data import Dataset, Sampler, SequentialSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler

from ..errors import ProjectError
from ..hooks import HookError, hook_file_of
from ..rewards.scoring import source_of
from ..run.distributed import Ranks
from ..switches import DYNAMIC_SAMPLING, VERL_CHECKPOINTS
from ..vendored.data.rl_dataset import collate_fn
from .verl_place import TAKEN, begin_at

# What torchdata calls the state of a sampler that shuffles.
SHUFFLED = "sampler_iter_state"


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
        return None if self.loader is None else self.loader.dataset

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[dict[str, Any]]:
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
        for name, length in lengths.items():
            if length < most:
                message = f"{length} of {most} items of the dataset have {name!r}: all must, or none"
                raise HookError(message, source_of(type(self.dataset)))
        return batch

    def state_dict(self) -> dict[str, Any] | None:
        """Return where it is; None on other processes than rank 0."""
        return None if self.loader is None else self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state_dict` was called."""
        if self.loader is None:
            return
        if VERL_CHECKPOINTS and TAKEN in state:
            begin_at(self, state[TAKEN])
            return
        keeps_order = isinstance(self.loader.sampler, SequentialSampler)  # which has no state of a shuffled one's
        self.loader.load_state_dict(of_torchdata(state, {SHUFFLED} if keeps_order else set()))


def of_torchdata(state: dict[str, Any], without: Collection[str] = ()) -> dict[str, Any]:
    """Return a state as torchdata has it: earlier checkpoints have a sampler's within one of their own."""
    found = {}
    for name, value in state.items():
        if name in without:
            continue
        if isinstance(value, dict) and "drawn" in value:
            value = value.get("indices")
            if value is None:
                continue
        found[name] = of_torchdata(value, without) if isinstance(value, dict) else value
    return found


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
    """
    loaders: list[StatefulDataLoader | None] = [None, None]

    def build() -> list[int]:
        loaders[:] = build_loaders(config.data, *build_datasets(), collate)
        return [len(loader) for loader in loaders if loader is not None]

    lengths = ranks.on_driver(build)
    train_loader, val_loader = map(SharedLoader, loaders, lengths, [ranks, ranks])
    return train_loader, val_loader


def build_loaders(
    data: Any, train_dataset: Any, val_dataset: Any, collate: Callable[[Any], Any] = collate_fn
) -> tuple[StatefulDataLoader, StatefulDataLoader]:
    """Return the loaders of one process, as `build_dataloaders` says; `data` is the config's section of that name."""
    order = torch.Generator()
    if data.shuffle and data.seed is not None:
        order.manual_seed(data.seed)
    # torchdata's, as upstream does: torch's own has no state, and a resumed run would repeat the first epoch's order.
    shuffled: Sampler = RandomSampler(train_dataset, generator=order)
    # Generators of their own: starting an epoch must not draw from the global one, or a resumed run would differ.
    more = {"num_workers": data.dataloader_num_workers, "collate_fn": collate}
    train_loader = StatefulDataLoader(
        train_dataset,
        batch_size=data.gen_batch_size or data.train_batch_size if DYNAMIC_SAMPLING else data.train_batch_size,
        sampler=shuffled if data.shuffle else SequentialSampler(train_dataset),
        drop_last=True,
        generator=torch.Generator(),
        **more,
    )
    val_loader = StatefulDataLoader(
        val_dataset,
        batch_size=data.val_batch_size or len(val_dataset),
        shuffle=data.validation_shuffle,
        generator=torch.Generator(),
        **more,
    )
    return train_loader, val_loader
