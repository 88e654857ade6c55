# vextract:template base/__package__/workers/optimizer_state.py - edit freely
"""The state of an optimizer and of its learning rate, as a checkpoint keeps it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import DTensor

from ..run.checkpoint_files import read_state
from ..run.distributed import Ranks
from .sharding import like, whole

FILE = "optimizer.pt"
State = dict[str, Any]


def gathered(
    optimizer: torch.optim.Optimizer,
    scheduler: Any,
    ranks: Ranks,
    device: torch.device,
) -> State:
    """Return the state of both, for any number of processes, in CPU memory.

    Every process must call this; rank 0 gets all of it, the others get None in the place of tensors.

    Args:
        optimizer: whose tensors the processes may share.
        scheduler: of its learning rate.
        ranks: this process among its peers.
        device: where the processes exchange what they share.
    """
    state = optimizer.state_dict()
    states: dict[int, State] = {}
    for parameter, values in state["state"].items():
        states[parameter] = {}
        for name, value in values.items():
            full = whole(value.to(device) if isinstance(value, DTensor) else value, None)
            if isinstance(full, torch.Tensor):
                full = None if ranks.rank else full.cpu()
            states[parameter][name] = full
    return {"optimizer": {**state, "state": states}, "scheduler": scheduler.state_dict()}


def read(path: Path, parameters: list[torch.Tensor], ranks: Ranks) -> State:
    """Read the state that a checkpoint has, with each tensor as its parameter is: shared by the processes, or not.

    Every process must call this.

    Args:
        path: a model's directory in the checkpoint.
        parameters: in the optimizer's order.
        ranks: this process among its peers.
    """
    states: list[State] = []
    # An error that rank 0 alone knew would leave the others waiting.
    ranks.on_driver(lambda: states.append(read_state(path / FILE)))
    tensors, rest = without_tensors(states[0]) if states else ({}, {})
    rest = ranks.on_driver(lambda: rest)
    _spread(rest, tensors, parameters)
    return rest


def _spread(state: State, tensors: Mapping[tuple[int, str], torch.Tensor], parameters: list[torch.Tensor]) -> None:
    """Put tensors that rank 0 has to where a `_Shape` stands for each."""
    for index, values in state["optimizer"]["state"].items():
        for name, value in values.items():
            if isinstance(value, _Shape):
                full = tensors[index, name] if tensors else value.empty()
                values[name] = like(full, parameters[index])


class _Shape(NamedTuple):
    """Stands for a tensor that only rank 0 has."""

    size: tuple[int, ...]
    dtype: torch.dtype

    def empty(self) -> torch.Tensor:
        return torch.empty(self.size, dtype=self.dtype)


def without_tensors(state: State) -> tuple[dict[tuple[int, str], torch.Tensor], State]:
    """Return the large tensors of an optimizer's state, by parameter and name, and the state without them."""
    tensors: dict[tuple[int, str], torch.Tensor] = {}
    states: dict[int, State] = {}
    for index, values in state["optimizer"]["state"].items():
        states[index] = dict(values)
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and value.dim() > 0:
                tensors[index, name] = value
                states[index][name] = _Shape(tuple(value.shape), value.dtype)
    return tensors, {**state, "optimizer": {**state["optimizer"], "state": states}}
