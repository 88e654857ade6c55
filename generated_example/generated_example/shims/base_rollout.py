# vextract:template shims/base_rollout.py - edit freely
"""The base class of a rollout whose weights live in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from ..vendored.protocol import DataProto


class BaseRollout(ABC):
    """A rollout that shares the actor's module: there are no weights to copy, to load or to free."""

    @abstractmethod
    def generate_sequences(self, prompts: DataProto) -> DataProto:
        """Generate a response to each prompt; see `HFRollout.generate_sequences` for the keys and shapes."""

    async def resume(self, tags: list[str]) -> None:
        """Bring weights or the KV cache back to the device: they never left."""
        return

    async def update_weights(self, weights: Iterable[tuple[str, Tensor]], **kwargs: Any) -> None:
        """Take new weights: they are the actor's own."""
        return

    async def release(self) -> None:
        """Free weights and KV cache: the actor still needs them."""
        return
