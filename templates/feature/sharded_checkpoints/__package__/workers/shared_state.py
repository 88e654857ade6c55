# vextract:template - edit freely
"""The state of an optimizer of which each process writes and reads its own share."""

from pathlib import Path
from typing import Any

import torch

from ..run.distributed import Ranks, distribute_like


def read_own(state: dict[str, Any], directory: Path, parameters: list[torch.Tensor], ranks: Ranks) -> None:
    """Fill a state with the shares in a directory, each as its parameter is: shared by the processes, or not."""
    from ..run.shards import listed, read_shares  # torch's checkpoint code is slow to import

    def fill() -> dict[str, torch.Tensor]:
        shapes = listed(directory).items()
        found = {name: _empty_like(parameters[_place(name)[0]], shape, dtype) for name, (shape, dtype) in shapes}
        read_shares(found, directory)
        return found

    for name, value in ranks.together(fill).items():
        index, key = _place(name)
        state["optimizer"]["state"][index][key] = value


def _place(name: str) -> tuple[int, str]:
    index, _, key = name.partition(".")
    return int(index), key


def _empty_like(shared: torch.Tensor, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor to be filled, shared out between the processes as another one is, or not."""
    if shape == shared.shape:
        return torch.empty_like(shared, dtype=dtype, requires_grad=False)
    return distribute_like(torch.empty(shape, dtype=dtype), shared)
