# vextract:template - edit freely; upgrades merge your edits
"""A model with its optimizer and the course of its learning rate."""

import warnings
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor

from ..utils.torch_functional import get_constant_schedule_with_warmup, get_cosine_schedule_with_warmup
from .role_configs import LR_SCHEDULE, build_optimizer
from .sharding import whole


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

    def full_weights(self) -> dict[str, torch.Tensor]:
        """All weights by name, whole, whether or not the processes share them. Every process must call this."""
        return {name: whole(value) for name, value in self.module.state_dict().items()}

    def optimizer_state(self) -> dict[str, Any]:
        """The state of optimizer and scheduler, for any number of processes. Every process must call this."""
        optimizer = self.optimizer.state_dict()
        optimizer["state"] = {
            parameter: {name: whole(value) for name, value in state.items()}
            for parameter, state in optimizer["state"].items()
        }
        return {"optimizer": optimizer, "scheduler": self.scheduler.state_dict()}

    def load_optimizer_state(self, state: dict[str, Any]) -> None:
        """Put optimizer and scheduler back to where `optimizer_state` saw them."""
        optimizer = state["optimizer"]
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        for index, values in optimizer["state"].items():
            parameter = parameters[index]
            for name, value in values.items():
                if isinstance(parameter, DTensor) and isinstance(value, torch.Tensor) and value.dim() > 0:
                    values[name] = distribute_tensor(
                        value.to(parameter.device), parameter.device_mesh, parameter.placements
                    )
        self.optimizer.load_state_dict(optimizer)
        self.scheduler.load_state_dict(state["scheduler"])
