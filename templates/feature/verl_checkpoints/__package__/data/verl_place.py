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
    batches, own = place["batches"], loader.loader
    if batches is None:
        return
    epochs = max(round((place["steps"] - batches) / loader.length), 0)
    if batches >= loader.length:  # of this epoch nothing is left
        epochs, batches = epochs + 1, 0
    if batches and place["indices"] is not None and hasattr(own.sampler, "generator"):
        own.sampler.generator.set_state(place["indices"]["generator"])
    else:
        for _ in range(epochs):
            deque(iter(own.sampler), maxlen=0)
    if batches:
        drawn = iter(own)
        deque((next(drawn) for _ in range(batches)), maxlen=0)
        own.load_state_dict(own.state_dict())
