# vextract:template - edit freely
"""Seeds for an engine that draws its tokens itself."""

import contextlib
import contextvars
from collections.abc import Iterator, Sequence

import torch

from ..switches import OVERLAP

SEEDS = 2**31 - 1
if OVERLAP:
    _generator: contextvars.ContextVar[torch.Generator | None] = contextvars.ContextVar("generator", default=None)


def draw_seeds(count: int) -> Sequence[int]:
    """Draw seeds for an engine from the generator that checkpoints save, which is another on each process."""
    if OVERLAP:
        seeds = torch.randint(SEEDS, (count,), generator=_generator.get())
    else:
        seeds = torch.randint(SEEDS, (count,))
    return list(seeds.tolist())


if OVERLAP:

    @contextlib.contextmanager
    def drawing_from(seed: int) -> Iterator[None]:
        """Have `draw_seeds` draw the numbers that belong to `seed` within it: the global generators are the loop's."""
        token = _generator.set(torch.Generator().manual_seed(seed))
        try:
            yield
        finally:
            _generator.reset(token)
