# vextract:template base/__package__/workers/trained_model.py - edit freely
"""A model with its optimizer and the course of its learning rate."""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from ..errors import ConfigError
from ..features import adapter_settings, adapter_weights, plain_weights, save_adapter
from ..run.distributed import Ranks
from ..vendored.utils.torch_functional import get_constant_schedule_with_warmup, get_cosine_schedule_with_warmup
from .devices import get_device_id
from .offload import rests, state_at_rest, weights_at_rest
from .optimizers import build_optimizer
from .sharding import like, local, whole

# What the config says of an optimizer, besides the learning rate: it holds for a run that is resumed as well.
CONFIGURED = ("initial_lr", "betas", "weight_decay")


class TrainedModel:
    """A model with its optimizer and its learning rate.

    Attributes:
        module: the model, on its device or at rest; shared between the processes if there are several.
        lora: the settings of the adapter that is trained in place of the model's own weights; None: there is none.
        optimizer: of what is trained.
        scheduler: of the learning rate; steps once per training step.
        tokenizer: is saved beside the model.
        is_usable: whether this process's share of the weights was finite after the last update.
    """

    def __init__(
        self, module: nn.Module, optim: Any, fsdp_config: Any, tokenizer: Any, ranks: Ranks, total_steps: int
    ) -> None:
        self.module = module
        self.lora = adapter_settings(module)
        self.tokenizer = tokenizer
        self.is_usable = True
        self.optimizer = _optimizer(module, optim)
        weights_rest, state_rests = rests(fsdp_config, ranks.world_size)
        self._weights = weights_at_rest(module, get_device_id(), "cpu" if weights_rest else None)
        self._state = state_at_rest(self.optimizer, get_device_id(), "cpu" if state_rests else None)
        warmup_steps = optim.lr_warmup_steps
        if warmup_steps < 0:
            warmup_steps = int(optim.lr_warmup_steps_ratio * total_steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if _lr_schedule(optim) == "constant":
                self.scheduler = get_constant_schedule_with_warmup(self.optimizer, num_warmup_steps=warmup_steps)
            else:
                self.scheduler = get_cosine_schedule_with_warmup(
                    self.optimizer,
                    num_warmup_steps=warmup_steps,
                    num_training_steps=total_steps,
                    min_lr_ratio=optim.min_lr_ratio,
                    num_cycles=optim.num_cycles,
                )

    @contextmanager
    def in_use(self, optimizer: bool = False) -> Iterator[None]:
        """Keep the model on its device within it, and its optimizer's state as well if asked for.

        It matters where `fsdp_config.param_offload` or `optimizer_offload` lets them rest in CPU memory.
        """
        with ExitStack() as stack:
            stack.enter_context(self._weights)
            if optimizer:
                stack.enter_context(self._state)
            yield

    def step_learning_rate(self) -> float:
        """Return the learning rate of the step that has just been done; then go on to the next one's."""
        rate = float(self.scheduler.get_last_lr()[0])
        self.scheduler.step()
        return rate

    def has_usable_weights(self) -> bool:
        """Tell whether this process's share of what is trained is finite, and small enough to be computed with.

        Weights whose squares float32 cannot hold make every layer compute infinity or NaN. To be called where the
        model is in use.
        """
        norms = [
            torch.linalg.vector_norm(local(parameter.detach()), dtype=torch.float32)
            for group in self.optimizer.param_groups
            for parameter in group["params"]
        ]
        return not norms or bool(torch.isfinite(torch.stack(norms).sum()))

    def full_weights(self, device: str | None = "cpu") -> Iterator[tuple[str, torch.Tensor]]:
        """Return all weights by their names in Hugging Face format, whole, with an adapter merged into them.

        Every process must take them all; what it does not keep costs it the memory of one tensor.

        Args:
            device: where they are to be; None: where the model computes.
        """
        with self.in_use():
            for name, value in plain_weights(self.module):
                yield name, whole(value, device)

    def adapter_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Return the adapter's weights by their names in peft's format, whole, on the CPU; none without an adapter.

        Every process must take them all.
        """
        with self.in_use():
            for name, value in adapter_weights(self.module):
                yield name, whole(value)

    def save(self, directory: Path, ranks: Ranks) -> None:
        """Write the weights, and the tokenizer beside them. Every process must call this; rank 0 writes.

        Without an adapter the directory is a model in Hugging Face format. With one it holds only the adapter, in
        peft's format.
        """
        if self.lora is not None:
            with self.in_use():
                save_adapter(self.module, directory, ranks)
        else:
            weights = {name: weight for name, weight in self.full_weights() if ranks.rank == 0}
            write: Any = self.module.save_pretrained
            ranks.on_driver(lambda: write(directory, state_dict=weights), patient=True)
        ranks.on_driver(lambda: bool(self.tokenizer.save_pretrained(directory)), patient=True)

    def optimizer_state(self, ranks: Ranks) -> dict[str, Any]:
        """Return the state of optimizer and scheduler, for any number of processes.

        Every process must call this; rank 0 gets all of it, the others get None in the place of tensors.
        """
        optimizer = self.optimizer.state_dict()
        states: dict[int, dict[str, Any]] = {}
        with self._state:
            for parameter, values in optimizer["state"].items():
                states[parameter] = {}
                for name, value in values.items():
                    full = whole(value)
                    states[parameter][name] = full if ranks.rank == 0 or not isinstance(full, torch.Tensor) else None
        return {"optimizer": {**optimizer, "state": states}, "scheduler": self.scheduler.state_dict()}

    def load_optimizer_state(self, state: dict[str, Any] | None, ranks: Ranks) -> None:
        """Put optimizer and scheduler back to where `optimizer_state` saw them.

        The learning rate, its course and the weight decay are those of the config, which may have changed since then.

        Args:
            state: on rank 0; the other processes need none.
            ranks: this process among its peers; every one must call this.
        """
        tensors, rest = _take_tensors_out(state) if state is not None else ({}, None)
        rest = ranks.on_driver(lambda: rest)
        assert rest is not None
        self._check_optimizer(rest)
        parameters = [parameter for group in self._groups for parameter in group["params"]]
        with self.in_use(optimizer=True):  # the state comes to where the weights are
            for index, values in rest["optimizer"]["state"].items():
                for name, value in values.items():
                    if isinstance(value, _Shape):
                        full = value.empty() if state is None else tensors[index, name]
                        values[name] = like(full, parameters[index])
            configured = [{name: group[name] for name in CONFIGURED if name in group} for group in self._groups]
            self.optimizer.load_state_dict(rest["optimizer"])
        for group, settings in zip(self._groups, configured, strict=True):
            group.update(settings)
        self._continue_schedule(rest["scheduler"])

    def _check_optimizer(self, state: dict[str, Any]) -> None:
        """Refuse the state of another optimizer, whose settings it has under other names."""
        known, needed = (set(groups[0]) for groups in (state["optimizer"]["param_groups"], self._groups))
        if needed - known:
            raise ConfigError(
                f"the checkpoint is not of this optimizer, {type(self.optimizer).__name__}, which has "
                + ", ".join(sorted(needed - known)),
                "resume with the optim section of the run that wrote it; or start anew from its weights: "
                "trainer.resume_mode=disable actor_rollout_ref.model.path=.../global_step_N/actor",
            )

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    def _continue_schedule(self, state: dict[str, Any]) -> None:
        """Go on after as many steps as the state has, at the rates that the schedule of this run has there."""
        rates: Any = self.scheduler
        rates.load_state_dict({**state, "base_lrs": rates.base_lrs})
        now = [rate * course(rates.last_epoch) for rate, course in zip(rates.base_lrs, rates.lr_lambdas, strict=True)]
        for group, rate in zip(self._groups, now, strict=True):
            group["lr"] = rate
        rates._last_lr = now


def _lr_schedule(optim: Any) -> str:
    """Return the course of the learning rate that an `optim` section names: constant or cosine."""
    return str(optim.get("warmup_style") or optim.lr_scheduler_type)  # upstream knows the older name as well


def _optimizer(module: nn.Module, optim: Any) -> torch.optim.Optimizer:
    """Return the optimizer that an `optim` section describes, of the weights that are not frozen."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    try:
        return build_optimizer(trained, optim)
    except (ImportError, AttributeError) as error:
        text = str(error).partition(" Available optimizers")[0]
        raise ConfigError(
            f"no such optimizer: {text}", "check optim.optimizer and optim.optimizer_impl, and that it is installed"
        ) from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the optimizer refuses its settings: {error}", "check the section optim") from error


class _Shape(NamedTuple):
    """What stands for a tensor that only rank 0 has."""

    size: tuple[int, ...]
    dtype: torch.dtype

    def empty(self) -> torch.Tensor:
        return torch.empty(self.size, dtype=self.dtype)


def _take_tensors_out(state: dict[str, Any]) -> tuple[dict[tuple[int, str], torch.Tensor], dict[str, Any]]:
    """Return the large tensors of an optimizer's state, by parameter and name, and the state without them."""
    tensors: dict[tuple[int, str], torch.Tensor] = {}
    states: dict[int, dict[str, Any]] = {}
    for index, values in state["optimizer"]["state"].items():
        states[index] = dict(values)
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and value.dim() > 0:
                tensors[index, name] = value
                states[index][name] = _Shape(tuple(value.shape), value.dtype)
    return tensors, {**state, "optimizer": {**state["optimizer"], "state": states}}
