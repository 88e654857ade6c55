# vextract:template base/__package__/workers/offload.py - edit freely
"""What waits in CPU memory while nothing uses it: weights, and the state of an optimizer.

Upstream's workers move both before and after each of their calls (`fsdp_config.param_offload`, `optimizer_offload`).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..shims.device import empty_cache

# A device, or anything else that `Tensor.to` takes.
Place = Any


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
    return Resident(module.to, home, rest)


def state_at_rest(optimizer: torch.optim.Optimizer, home: Place, rest: Place | None) -> Resident:
    """Return the state of an optimizer: what belongs to each weight; counters stay where they are."""

    @torch.no_grad()
    def move(place: Place) -> None:
        for state in optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, torch.Tensor) and value.dim() > 0:
                    state[name] = value.to(place)

    return Resident(move, home, rest)


def rests(fsdp_config: Any, world_size: int) -> tuple[bool, bool]:
    """Tell whether the weights wait in CPU memory, and whether the optimizer's state does.

    With several processes, `offload_policy` leaves both to FSDP2, which fetches one layer at a time. One process holds
    the model whole, and moves all of it.
    """
    by_fsdp = fsdp_config.offload_policy and world_size > 1
    alone = fsdp_config.offload_policy and world_size == 1
    weights = bool(fsdp_config.param_offload or alone) and not by_fsdp
    return weights, bool(fsdp_config.get("optimizer_offload") or alone) and not by_fsdp
