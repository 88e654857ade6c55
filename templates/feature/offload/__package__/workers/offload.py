# vextract:template - edit freely
"""What waits in CPU memory while nothing uses it: weights, and the state of an optimizer.

Upstream's workers move both before and after each of their calls (`fsdp_config.param_offload`, `optimizer_offload`).
Here an optimizer takes its step for one share of the weights after the other, and no more of its state comes along.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from ..run.distributed import Ranks, to_local
from ..shims.device import empty_cache
from .host_memory import overwrite, to_host, wait

# A device, or anything else that `Tensor.to` takes.
Place = Any
# Bytes of the weights that an optimizer's step is taken for at a time; torch's AdamW takes as much besides on a GPU.
SHARE = 2**29
# Of other kinds, as packed weights are, not all is in the tensor itself; they move by their own rules.
PLAIN = (torch.Tensor, nn.Parameter, DTensor)


class Resident:
    """Something that is at home within `with`, and at rest outside of it. It may be entered more than once.

    Args:
        move: moves it to a place.
        home: where it is used.
        rest: where it waits; None: it stays at home.
    """

    def __init__(self, move: Callable[[Place], object], home: Place, rest: Place | None) -> None:
        self.move = move
        self.home = home
        self.rest = rest
        self.users = 0
        if rest is not None:
            self._move_to(rest)

    def __enter__(self) -> None:
        if self.users == 0 and self.rest is not None:
            self._move_to(self.home)
        self.users += 1

    def __exit__(self, *_: object) -> None:
        self.users -= 1
        if self.users == 0 and self.rest is not None:
            self._move_to(self.rest)

    def _move_to(self, place: Place) -> None:
        self.move(place)
        if place == self.rest:
            empty_cache()


def weights_at_rest(module: nn.Module, home: Place, rest: Place | None) -> Resident:
    """Return the weights of a model, whole or shared out by FSDP2, and with them their gradients."""
    waiting: dict[int, torch.Tensor] = {}  # for what is at home, by its address: its place at rest

    def to_home(value: torch.Tensor) -> torch.Tensor:
        found = _to(value, home)
        if found is not value and type(value) in PLAIN:
            waiting[to_local(found).data_ptr()] = value.detach()
        return found

    def to_rest(value: torch.Tensor) -> torch.Tensor:
        if type(value) not in PLAIN:
            return _to(value, rest)
        return _back(value, waiting.pop(to_local(value).data_ptr(), None), rest)

    @torch.no_grad()
    def move(place: Place) -> None:
        module._apply(to_home if place == home else to_rest)
        if place != home:
            waiting.clear()
            wait()

    return Resident(move, home, rest)


class SteppedByShares:
    """Has an optimizer take its step for one share of the weights at a time, for which alone its state comes home.

    What comes out is the same, bit for bit: torch's optimizers change a weight by its own gradient and state. Another
    one, which may not, takes its step for all weights at once.

    Args:
        optimizer: its `step` is replaced.
        home: where the weights are, while it takes its step.
        rest: where the state waits; None: it stays at home. Counters stay where they are in any case.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, home: Place, rest: Place | None) -> None:
        self.optimizer = optimizer
        self.home, self.rest = home, rest
        self._step: Callable[..., Any] = optimizer.step
        self._divides = _is_elementwise(optimizer)
        by_shares = MethodType(lambda _, *given, **named: self.step(*given, **named), optimizer)
        optimizer.step = by_shares  # type: ignore[method-assign]

    def step(self, *arguments: Any, **named: Any) -> Any:
        """Take the optimizer's step; with a closure, which computes gradients anew, for all weights at once."""
        learned = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        learned = [weight for weight in learned if weight.grad is not None]
        shares = list(_shares(learned)) if self._divides and not arguments and not named else [learned]
        result = None
        try:
            for share in shares:
                with _without_gradients(learned, share), self._at_home(share):
                    result = self._step(*arguments, **named)
        finally:
            if self.rest is not None:
                wait()
        return result

    def settle(self) -> None:
        """Bring the state, which has just been read, to where it waits, in memory that is fit for it."""
        if self.rest is not None:
            for state, name in self._tensors(self.optimizer.state):
                state[name] = to_host(state[name].to(self.home), self.rest)
            empty_cache()

    @contextmanager
    def _at_home(self, weights: Sequence[torch.Tensor]) -> Iterator[None]:
        if self.rest is None:
            yield
            return
        waiting = {}
        for state, name in self._tensors(weights):
            kept, state[name] = state[name], state[name].to(self.home, non_blocking=True)
            waiting[id(state), name] = kept
        try:
            yield
        finally:
            for state, name in self._tensors(weights):
                state[name] = _back(state[name], waiting.get((id(state), name)), self.rest)

    def _tensors(self, weights: Iterable[torch.Tensor]) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield where there is a tensor in the state of these weights."""
        for weight in weights:
            state = self.optimizer.state.get(weight, {})
            for name, value in list(state.items()):
                if isinstance(value, torch.Tensor) and value.dim() > 0:
                    yield state, name


Weights = Callable[..., Iterator[tuple[str, torch.Tensor]]]


def kept_home(method: Weights) -> Weights:
    """Have a model's method that yields weights keep them on its device until it ends."""

    @functools.wraps(method)
    def around(model: Any, *arguments: Any, **named: Any) -> Iterator[tuple[str, torch.Tensor]]:
        with model.in_use():
            yield from method(model, *arguments, **named)

    return around


def state_at_rest(load: Callable[..., None]) -> Callable[..., None]:
    """Have a model's method that reads its optimizer's state bring it to where it waits.

    It comes to where the weights are. One process may have no room for both on its GPU. Several spread what is read
    between their devices.
    """

    @functools.wraps(load)
    def around(model: Any, path: Path, ranks: Ranks) -> None:
        if model._stepped.rest is None or ranks.world_size > 1:
            with model.in_use():
                load(model, path, ranks)
                model._stepped.settle()
            return
        where = next(model.module.parameters()).device
        model.module.to(model._stepped.rest)
        try:
            load(model, path, ranks)
            model._stepped.settle()
        finally:
            model.module.to(where)

    return around


def _shares(weights: Iterable[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    share: list[torch.Tensor] = []
    size = 0
    for weight in weights:
        own = to_local(weight)
        if share and size + own.nbytes > SHARE:
            yield share
            share, size = [], 0
        share.append(weight)
        size += own.nbytes
    yield share


@contextmanager
def _without_gradients(weights: Iterable[torch.Tensor], others: Iterable[torch.Tensor]) -> Iterator[None]:
    """Take the gradients of weights away within it, but for some others."""
    kept = {id(weight) for weight in others}
    taken = [(weight, weight.grad) for weight in weights if id(weight) not in kept]
    for weight, _ in taken:
        weight.grad = None
    try:
        yield
    finally:
        for weight, gradient in taken:
            weight.grad = gradient


def _is_elementwise(optimizer: torch.optim.Optimizer) -> bool:
    """Tell whether an optimizer changes each weight by what belongs to it alone."""
    return type(optimizer).__module__.startswith("torch.optim.") and not isinstance(optimizer, torch.optim.LBFGS)


def _back(value: torch.Tensor, kept: torch.Tensor | None, rest: Place) -> torch.Tensor:
    """Bring a tensor to where it waits: into `kept`, its place there, if it has one."""
    if kept is None or kept is value or kept.shape != value.shape:
        return _to(value, rest, to_host)
    overwrite(kept, value)
    return kept


def _to(value: torch.Tensor, place: Place, move: Callable[..., torch.Tensor] = torch.Tensor.to) -> torch.Tensor:
    """Move a tensor to a device; or to a dtype, if it holds no whole numbers, as `Module.to` does."""
    return move(value, place) if value.is_floating_point() or not isinstance(place, torch.dtype) else value


def rests(fsdp_config: Any, world_size: int) -> tuple[bool, bool]:
    """Tell whether the weights wait in CPU memory, and whether the optimizer's state does.

    With several processes, `offload_policy` leaves both to FSDP2, which fetches one layer at a time. One process holds
    the model whole, and moves all of it.
    """
    by_fsdp = fsdp_config.offload_policy and world_size > 1
    alone = fsdp_config.offload_policy and world_size == 1
    weights = bool(fsdp_config.param_offload or alone) and not by_fsdp
    return weights, bool(fsdp_config.get("optimizer_offload") or alone) and not by_fsdp
