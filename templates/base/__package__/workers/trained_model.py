# vextract:template - edit freely
"""A model with its optimizer and the course of its learning rate, and what a checkpoint keeps of them."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_map

from ..data.images import save_processor
from ..errors import ConfigError, DivergenceError
from ..run.checkpoint_files import read_state, save_state
from ..run.distributed import Ranks, distribute_like, to_full, to_local
from ..run.share_names import OPTIMIZER, is_sharded
from ..shims.device import computing_on, here, keeping_casts
from ..switches import HF, LORA, MULTIMODAL, OFFLOAD, PARTS, QLORA, SHARDED_CHECKPOINTS, WATCH
from ..vendored.utils.metric.utils import reduce_metrics
from ..vendored.utils.torch_functional import get_constant_schedule_with_warmup, get_cosine_schedule_with_warmup
from .host_copies import HostCopies
from .lora import adapter_settings, adapter_weights, adapter_writer, plain_weights
from .offload import SteppedByShares, kept_home, rests, state_at_rest, weights_at_rest
from .own_shares import read_own_shares, shares_at
from .policy_notes import note_rounding
from .quantized import unpacked_weights
from .role_configs import build_optimizer
from .shared_state import read_own

# What the config says of an optimizer, besides the learning rate: it holds for a run that is resumed as well.
CONFIGURED = ("initial_lr", "betas", "weight_decay")
FILE = "optimizer.pt"
# Writes a part into a model's directory, on rank 0.
Write = Callable[[Path], None]


class TrainedModel:
    """A model with its optimizer and its learning rate.

    Attributes:
        module: the model, on its device or at rest; shared between the processes if there are several.
        device: the one that it computes on.
        optimizer: of what is trained.
        scheduler: of the learning rate; steps once per training step.
        tokenizer: is saved beside the model.
        is_usable: whether this process's share of the weights was finite after the last update.
    """

    section_name = optim_name = ""  # for messages: where the config has its fsdp_config and its optimizer

    def __init__(
        self, module: nn.Module, optim: Any, fsdp_config: Any, tokenizer: Any, ranks: Ranks, total_steps: int
    ) -> None:
        self.module = module
        self.device = here()
        if LORA:
            self.lora = adapter_settings(module)  # of what is trained in place of the weights; None: nothing
        self.tokenizer = tokenizer
        self.is_usable = True
        if not HF:  # how many bytes of the device an engine in this process has given back, which torch counts still
            self.given_back: Callable[[], int] = lambda: 0
        if SHARDED_CHECKPOINTS:
            self.copies = HostCopies()
        self.optimizer = _optimizer(module, optim)
        if WATCH and ranks.rank == 0 and "Adam" in type(self.optimizer).__name__:
            note_rounding(self.trained, optim, f"{self.section_name}.fsdp_config.model_dtype")
        if OFFLOAD:
            weights_rest, state_rests = rests(fsdp_config, ranks.world_size)
            self._weights = weights_at_rest(module, self.device, "cpu" if weights_rest else None)
            self._stepped = SteppedByShares(self.optimizer, self.device, "cpu" if state_rests else None)
        warmup_steps = optim.lr_warmup_steps
        if warmup_steps < 0:
            warmup_steps = int(optim.lr_warmup_steps_ratio * total_steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if lr_schedule(optim) == "constant":
                self.scheduler = get_constant_schedule_with_warmup(self.optimizer, num_warmup_steps=warmup_steps)
            else:
                self.scheduler = get_cosine_schedule_with_warmup(
                    self.optimizer,
                    num_warmup_steps=warmup_steps,
                    num_training_steps=total_steps,
                    min_lr_ratio=optim.min_lr_ratio,
                    num_cycles=optim.num_cycles,
                )

    if OFFLOAD:

        def in_use(self) -> AbstractContextManager[None]:
            """Keep the model on its device within it: `fsdp_config.param_offload` rests it in CPU memory otherwise."""
            return self._weights

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have the model on its device, and compute there.

        Autocast's cache is off: a pass uses each weight once, and the cast copies would take half the model's memory.
        """
        with computing_on(self.device), keeping_casts(False):
            if OFFLOAD:
                with self.in_use():
                    yield
            else:
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
        norms = [torch.linalg.vector_norm(to_local(one.detach()), dtype=torch.float32) for one in self.trained]
        return not norms or bool(torch.isfinite(torch.stack(norms).sum()))

    if not WATCH:

        def require_usable(self, ranks: Ranks) -> None:
            """Raise a DivergenceError if the last update made weights NaN or infinite, on any process."""
            if ranks.any(not self.is_usable):
                text = f"weights that {self.optim_name} trains are NaN, infinite or too large to compute with"
                raise DivergenceError(f"the run has diverged: {text}\nhint: {self.lower_rate}")

    @property
    def lower_rate(self) -> str:
        """Say what to do where this model has diverged."""
        optim = self.optim_name
        return f"lower {optim}.lr, or raise {optim}.lr_warmup_steps; these weights were not saved"

    def full_weights(self, device: str | None = "cpu") -> Iterator[tuple[str, torch.Tensor]]:
        """Return all weights by their names in Hugging Face format, whole; an adapter is merged into them.

        Every process must take them all; what it does not keep costs it the memory of one tensor.

        Args:
            device: where they are to be; None: where the model computes.
        """
        if QLORA or LORA:
            for name, value in unpacked_weights(self.module) if QLORA else plain_weights(self.module):
                yield name, to_full(value, device)
        else:
            for name, value in self.module.state_dict().items():
                yield name, to_full(value, device)

    if OFFLOAD:
        full_weights = kept_home(full_weights)

    if LORA:

        def adapter_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
            """Return the adapter's weights by their names in peft's format, whole, on the CPU; none without an adapter.

            Every process must take them all.
            """
            for name, value in adapter_weights(self.module):
                yield name, to_full(value)

    if LORA and OFFLOAD:
        adapter_weights = kept_home(adapter_weights)

    if PARTS:
        module_at: Callable[[str, Ranks], nn.Module]  # a new model with the weights at a path: on rank 0, on the CPU

        @torch.no_grad()
        def load_weights(self, path: str, ranks: Ranks) -> None:
            """Put what is trained to what it is at `path`, a checkpoint's. Every process must call this."""
            if SHARDED_CHECKPOINTS and (not LORA or self.lora is None):
                shares = shares_at(path, ranks)
                if shares is not None:
                    with self.at_work():
                        read_own_shares(self.module, shares, ranks)
                    return
            with self.at_work():
                values = dict(self.module_at(path, ranks).named_parameters())
                for name, own in self.module.named_parameters():
                    if own.requires_grad:
                        value = values[name] if ranks.rank == 0 else torch.empty_like(values[name], device="cpu")
                        own.copy_(distribute_like(value, own))

    def optimizer_state(self, ranks: Ranks) -> dict[str, Any]:
        """Return the state of optimizer and scheduler, for any number of processes, in CPU memory.

        Every process must call this; rank 0 gets all of it, the others get None in the place of tensors.
        """

        def gathered(value: Any) -> Any:
            full = to_full(value.to(self.device) if isinstance(value, DTensor) else value, None)
            return (None if ranks.rank else full.cpu()) if isinstance(full, torch.Tensor) else full

        state = self.optimizer.state_dict()
        states = tree_map(gathered, state["state"])
        return {"optimizer": {**state, "state": states}, "scheduler": self.scheduler.state_dict()}

    def load_optimizer_state(self, path: Path, ranks: Ranks) -> None:
        """Put optimizer and scheduler back to where a checkpoint has them. Every process must call this.

        The learning rate, its course and the weight decay are those of the config, which may have changed since then.

        Args:
            path: the model's directory in the checkpoint.
            ranks: this process among its peers.
        """
        state = _read_state(path, self.trained, ranks)
        own = self.optimizer.param_groups
        known, needed = (set(groups[0]) for groups in (state["optimizer"]["param_groups"], own))
        if needed - known:
            raise ConfigError(
                f"the checkpoint is not of this optimizer, {type(self.optimizer).__name__}, which has "
                + ", ".join(sorted(needed - known)),
                "resume with the optim section of the run that wrote it; or start anew from its weights: "
                "trainer.resume_mode=disable, and the checkpoint's actor/ as actor_rollout_ref.model.path",
            )
        configured = [{name: group[name] for name in CONFIGURED if name in group} for group in own]
        self.optimizer.load_state_dict(state["optimizer"])
        # As many steps as the checkpoint has are done; the rates are those of this run's schedule there.
        rates: Any = self.scheduler
        rates.load_state_dict({**state["scheduler"], "base_lrs": rates.base_lrs})
        rates._last_lr = [
            rate * course(rates.last_epoch) for rate, course in zip(rates.base_lrs, rates.lr_lambdas, strict=True)
        ]
        for group, settings, rate in zip(self.optimizer.param_groups, configured, rates._last_lr, strict=True):
            group.update({**settings, "lr": rate})

    if OFFLOAD:
        load_optimizer_state = state_at_rest(load_optimizer_state)

    @property
    def trained(self) -> list[torch.Tensor]:
        """The parameters that are trained, in the optimizer's order."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]


def parts_of(model: TrainedModel, ranks: Ranks) -> Iterator[Write]:
    """Return what writes a model: its weights, then its optimizer's state, each as it is when it is asked for.

    Args:
        model: what to write.
        ranks: this process among its peers; every one must take all parts. Rank 0 holds one whole part at a time.
    """
    yield _weights(model, ranks)
    state = model.optimizer_state(ranks)
    yield lambda directory: save_state(state, directory / FILE)


def _weights(model: TrainedModel, ranks: Ranks) -> Write:
    if LORA and model.lora is not None:
        save = adapter_writer(model.module, ranks)
    else:
        weights = {name: weight for name, weight in model.full_weights() if ranks.rank == 0}
        save = partial(model.module.save_pretrained, state_dict=weights)

    def write(directory: Path) -> None:
        save(directory)
        if MULTIMODAL:
            save_processor(model.tokenizer, directory)
        model.tokenizer.save_pretrained(directory)

    return write


def lr_schedule(optim: Any) -> str:
    """Return the course of the learning rate that an `optim` section names: constant or cosine."""
    return str(optim.get("warmup_style") or optim.lr_scheduler_type)  # upstream knows the older name as well


def reduce_over_ranks(metrics: Mapping[str, Any], ranks: Ranks) -> dict[str, Any]:
    """Reduce the metrics of all processes and all their mini-batches to one number each. All must call this."""
    merged: dict[str, list[Any]] = defaultdict(list)
    for part in ranks.gather_objects(metrics):
        for name, value in part.items():
            merged[name].extend(value if isinstance(value, list) else [value])
    return dict(reduce_metrics(merged))


def _read_state(path: Path, parameters: list[torch.Tensor], ranks: Ranks) -> dict[str, Any]:
    """Read the state that a checkpoint has, with each tensor as its parameter is: shared by the processes, or not."""
    found: list[dict[str, Any]] = []
    # An error that rank 0 alone knew would leave the others waiting.
    ranks.on_driver(lambda: found.append(read_state(path / FILE)))

    def without_numbers(value: Any) -> Any:
        return value.to("meta") if isinstance(value, torch.Tensor) and value.dim() else value

    state = ranks.on_driver(lambda: tree_map(without_numbers, found[0]))
    if SHARDED_CHECKPOINTS and ranks.on_driver(lambda: is_sharded(path / OPTIMIZER)):
        read_own(state, path / OPTIMIZER, parameters, ranks)
        return state
    for index, values in state["optimizer"]["state"].items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and value.dim():
                full = found[0]["optimizer"]["state"][index][name] if found else torch.empty_like(value, device="cpu")
                values[name] = distribute_like(full, parameters[index])
    return state


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
