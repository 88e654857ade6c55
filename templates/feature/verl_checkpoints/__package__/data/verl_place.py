# vextract:template - edit freely
"""Go on from the place in the data that a data loader of verl's was at."""

from collections import deque
from typing import Any

TAKEN = "taken over from verl"  # the key of such a place in a data loader's state


def begin_at(loader: Any, place: dict[str, Any]) -> None:
    """Have a `SharedLoader` go on from the place of a data loader of verl's, whose batches are as large.

    Args:
        loader: on rank 0.
        place: `steps` of the run; `batches` of the present epoch that were drawn; and `indices`, the state of
            torchdata's sampler then. Without that, the order of the epoch is that of the seed.
    """
    batches, sampler = place["batches"], loader.loader.sampler
    if batches is None or not hasattr(sampler, "first"):
        return
    epochs = max(round((place["steps"] - batches) / loader.length), 0)
    if batches >= loader.length:  # of this epoch nothing is left
        epochs, batches = epochs + 1, 0
    begin_epoch(sampler, epochs, batches * (loader.loader.batch_size or 1), place["indices"] if batches else None)


def begin_epoch(sampler: Any, epoch: int, drawn: int, indices: dict[str, Any] | None) -> None:
    """Have a `PlaceSampler` begin with an epoch of which so many items were drawn.

    Args:
        sampler: draws the indices.
        epoch: counted from 0.
        drawn: how many items of it were drawn.
        indices: the state of torchdata's sampler then. Without it the epochs before are drawn, and that part of this.
    """
    sampler.epoch = epoch
    if indices is not None and hasattr(iter(sampler.indices), "load_state_dict"):
        sampler.first = {"epoch": epoch, "drawn": drawn, "indices": indices}
        return
    for _ in range(epoch):
        deque(iter(sampler.indices), maxlen=0)
    places = iter(sampler)
    deque((next(places) for _ in range(drawn)), maxlen=0)
    sampler.first, sampler.epoch = places.state_dict(), epoch
