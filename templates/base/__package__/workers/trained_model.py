# vextract:template - edit freely; upgrades merge your edits
"""A model with its optimizer and the course of its learning rate."""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from ..training.distributed import Ranks
from ..utils.torch_functional import get_constant_schedule_with_warmup, get_cosine_schedule_with_warmup
from .role_configs import LR_SCHEDULE, build_optimizer
from .sharding import like, whole


class TrainedModel:
    """A model with its optimizer and its learning rate.

    Attributes:
        module: the model, on its device; shared between the processes if there are several.
        optimizer: of its parameters.
        scheduler: of the learning rate; steps once per training step.
        tokenizer: is saved beside the model.
    """

    def __init__(self, module: nn.Module, optim: Any, tokenizer: Any, total_steps: int) -> None:
        self.module = module
        self.tokenizer = tokenizer
        self.optimizer = build_optimizer(module.parameters(), optim)
        warmup_steps = optim.lr_warmup_steps
        if warmup_steps < 0:
            warmup_steps = int(optim.lr_warmup_steps_ratio * total_steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if optim[LR_SCHEDULE] == "constant":
                self.scheduler = get_constant_schedule_with_warmup(self.optimizer, num_warmup_steps=warmup_steps)
            else:
                self.scheduler = get_cosine_schedule_with_warmup(
                    self.optimizer,
                    num_warmup_steps=warmup_steps,
                    num_training_steps=total_steps,
                    min_lr_ratio=optim.min_lr_ratio,
                    num_cycles=optim.num_cycles,
                )

    def step_learning_rate(self) -> float:
        """The learning rate of the step that has just been done; then go on to the next one's."""
        rate = float(self.scheduler.get_last_lr()[0])
        self.scheduler.step()
        return rate

    def full_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """All weights with their names, whole, on the CPU, whether or not the processes share them.

        Every process must take them all; what it does not keep costs it the memory of one tensor.
        """
        for name, value in self.module.state_dict().items():
            yield name, whole(value)

    def optimizer_state(self, ranks: Ranks) -> dict[str, Any]:
        """The state of optimizer and scheduler, for any number of processes.

        Every process must call this; rank 0 gets all of it, the others get None in the place of tensors.
        """
        optimizer = self.optimizer.state_dict()
        states: dict[int, dict[str, Any]] = {}
        for parameter, values in optimizer["state"].items():
            states[parameter] = {}
            for name, value in values.items():
                full = whole(value)
                states[parameter][name] = full if ranks.rank == 0 or not isinstance(full, torch.Tensor) else None
        return {"optimizer": {**optimizer, "state": states}, "scheduler": self.scheduler.state_dict()}

    def load_optimizer_state(self, state: dict[str, Any] | None, ranks: Ranks) -> None:
        """Put optimizer and scheduler back to where `optimizer_state` saw them.

        Args:
            state: on rank 0; the other processes need none.
            ranks: this process among its peers; every one must call this.
        """
        tensors, rest = _take_tensors_out(state) if state is not None else ({}, None)
        rest = ranks.on_driver(lambda: rest)
        assert rest is not None
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        for index, values in rest["optimizer"]["state"].items():
            for name, value in values.items():
                if isinstance(value, _Shape):
                    full = value.empty() if state is None else tensors[index, name]
                    values[name] = like(full, parameters[index])
        self.optimizer.load_state_dict(rest["optimizer"])
        self.scheduler.load_state_dict(rest["scheduler"])


class _Shape(NamedTuple):
    """What stands for a tensor that only rank 0 has."""

    size: tuple[int, ...]
    dtype: torch.dtype

    def empty(self) -> torch.Tensor:
        return torch.empty(self.size, dtype=self.dtype)


def _take_tensors_out(state: dict[str, Any]) -> tuple[dict[tuple[int, str], torch.Tensor], dict[str, Any]]:
    """The large tensors of an optimizer's state, by parameter and name, and the state without them."""
    tensors: dict[tuple[int, str], torch.Tensor] = {}
    states: dict[int, dict[str, Any]] = {}
    for index, values in state["optimizer"]["state"].items():
        states[index] = dict(values)
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and value.dim() > 0:
                tensors[index, name] = value
                states[index][name] = _Shape(tuple(value.shape), value.dtype)
    return tensors, {**state, "optimizer": {**state["optimizer"], "state": states}}
