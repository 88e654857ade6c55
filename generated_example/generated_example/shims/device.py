# vextract:template shims/device.py - edit freely
"""Device helpers that upstream's code expects of every backend, and that a CPU lacks."""

from __future__ import annotations

from typing import Any

import torch


def empty_cache() -> None:
    """Give cached device memory back; on a CPU there is none to give."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class _NoMemory:
    """The memory of a device that has none of its own, in bytes."""

    def memory_allocated(self) -> int:
        return 0

    def memory_reserved(self) -> int:
        return 0

    def mem_get_info(self) -> tuple[int, int]:
        return 0, 0


def device_memory() -> Any:
    """Return who answers `memory_allocated`, `memory_reserved` and `mem_get_info` (free, total), in bytes."""
    for name in ("cuda", "npu", "xpu"):
        device = getattr(torch, name, None)
        if device is not None and device.is_available():
            return device
    return _NoMemory()
