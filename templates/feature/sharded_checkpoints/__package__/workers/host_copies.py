# vextract:template - edit freely
"""Copies of tensors that are written while training goes on."""

import torch

from .host_memory import overwrite, to_host


class HostCopies:
    """Copies of tensors in CPU memory, which a GPU's next copies overwrite."""

    def __init__(self) -> None:
        self._kept: dict[str, torch.Tensor] = {}

    def of(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Return a copy of a tensor, shared out between the processes as it is. It is all there after `wait`.

        Args:
            name: the next copy that is asked for by this name takes the place of this one, if it comes from a GPU.
            value: on any device.
        """
        value = value.detach()
        if value.device.type != "cuda":
            return value.clone()
        kept = self._kept.get(name)
        if kept is not None and kept.shape == value.shape and kept.dtype == value.dtype:
            overwrite(kept, value)
            return kept
        self._kept[name] = found = to_host(value)
        return found
