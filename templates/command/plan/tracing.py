"""Run a model on tensors that have shapes and no numbers, and count the bytes that they would take.

The tensors are torch's `FakeTensor`s: on the meta device, though operators treat them as a CPU's. So the model's own
code says what it keeps for the backward pass, recomputes or frees, whatever its architecture.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ACTIVATIONS, LOGITS, GRADIENTS, COPIES = "activations", "logits", "gradients", "copies"
# Operators that hold a copy of their first argument while they compute.
COPYING = (torch.ops.aten.logsumexp.default,)
SOFTMAX = ("log_softmax", "softmax")


@dataclass(frozen=True)
class Usage:
    """Bytes at the moment when all of them together are most.

    Attributes:
        activations: what passes compute, besides the others.
        logits: numbers for each word of the vocabulary.
        gradients: of weights: whole, or the share of a process.
        copies: of weights, in the dtype that autocast computes in.
    """

    activations: int = 0
    logits: int = 0
    gradients: int = 0
    copies: int = 0

    @property
    def total(self) -> int:
        """All of them together."""
        return self.activations + self.logits + self.gradients + self.copies


@contextmanager
def widening_softmax() -> Iterator[None]:
    """Have softmax computed in float32 within it, as autocast does on a GPU and not on a CPU.

    Functions are replaced: a mode of torch's would not reach what a checkpointed pass computes again.
    """
    before = [(module, name, getattr(module, name)) for module in (torch, functional) for name in SOFTMAX]
    for module, name, function in before:
        setattr(module, name, _widened(function))
    try:
        yield
    finally:
        for module, name, function in before:
            setattr(module, name, function)


def _widened(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def call(*args: Any, **settings: Any) -> torch.Tensor:
        if torch.is_autocast_enabled("cpu") and settings.get("dtype") is None:
            settings["dtype"] = torch.float32
        return function(*args, **settings)

    return call


class Tracker(TorchDispatchMode):
    """Counts what is allocated within it and not yet freed.

    Attributes:
        peak: what there was when it was most.

    Args:
        held: tensors that do not count: weights, and what comes from elsewhere.
        vocabulary: tensors whose last dimension is of this size count as logits.
    """

    def __init__(self, held: Iterable[torch.Tensor], vocabulary: int) -> None:
        super().__init__()
        self.peak = Usage()
        self._vocabulary = vocabulary
        self._kinds: dict[int, str] = {}  # by storage; what does not count has none
        self._now = dict.fromkeys((ACTIVATIONS, LOGITS, GRADIENTS, COPIES), 0)
        self._not_counted = [tensor.untyped_storage() for tensor in held]
        self._kinds.update((storage._cdata, "") for storage in self._not_counted)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call an operator, and count what it returns."""
        result = func(*args, **(kwargs or {}))
        scratch = args[0].numel() * args[0].element_size() if func in COPYING else 0
        casts = func is torch.ops.aten._to_copy.default and self._kinds.get(args[0].untyped_storage()._cdata) == ""
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                is_logits = tensor.dim() > 1 and tensor.shape[-1] == self._vocabulary
                self._count(tensor, COPIES if casts else LOGITS if is_logits else ACTIVATIONS, scratch)
        return result

    def mark_gradient(self, tensor: torch.Tensor) -> None:
        """Count a tensor, which has been counted before, as a gradient of a weight."""
        storage = tensor.untyped_storage()
        kind = self._kinds.get(storage._cdata)
        if kind in self._now:
            self._now[kind] -= storage.nbytes()
            self._now[GRADIENTS] += storage.nbytes()
            self._kinds[storage._cdata] = GRADIENTS

    def hold(self, size: int) -> None:
        """Count bytes of gradients that are kept from now on: a process's share of some."""
        self._now[GRADIENTS] += size

    def _count(self, tensor: torch.Tensor, kind: str, scratch: int) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self._kinds:
            self._kinds[key] = kind
            self._now[kind] += size
            weakref.finalize(storage, self._free, key, size)
        kinds = {**self._now, LOGITS: self._now[LOGITS] + scratch}
        if sum(kinds.values()) > self.peak.total:
            self.peak = Usage(**kinds)

    def _free(self, key: int, size: int) -> None:
        kind = self._kinds.pop(key)
        self._now[kind] -= size


def weights_of(module: nn.Module) -> list[torch.Tensor]:
    """Return the parameters and buffers of a model, each once."""
    return [*module.parameters(), *module.buffers()]


def size_of(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of tensors, each of which counts once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in {id(one): one for one in tensors}.values())


def without_numbers(module: nn.Module) -> nn.Module:
    """Put in the place of a model's tensors such as have no numbers, though operators take them for a CPU's.

    Args:
        module: on the meta device, which autocast does not know. To be called within a `FakeTensorMode`.
    """
    made: dict[int, torch.Tensor] = {}

    def of(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
            is_weight = isinstance(tensor, nn.Parameter)
            made[id(tensor)] = nn.Parameter(fake, requires_grad=tensor.requires_grad) if is_weight else fake
        return made[id(tensor)]

    for owner in module.modules():
        for place in (owner._parameters, owner._buffers, vars(owner)):
            for name, value in [*place.items()]:
                if isinstance(value, torch.Tensor):
                    place[name] = of(value)
    return module
