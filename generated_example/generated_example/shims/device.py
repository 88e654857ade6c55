# vextract:template shims/device.py - edit freely
"""Device helpers that upstream's code expects of every backend, and that a CPU lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch

_in_use: ContextVar[str | None] = ContextVar("device", default=None)


@contextmanager
def computing_on(device: torch.device) -> Iterator[None]:
    """Have the code within it, and of this thread alone, take `device` for the one of this process."""
    before = _in_use.set(device.type)
    module = torch.get_device_module(device.type)
    try:
        with nullcontext() if device.index is None or device.type == "cpu" else module.device(device.index):
            yield
    finally:
        _in_use.reset(before)


def get_device_name() -> str:
    """Return the kind of device to compute on: what `computing_on` names, or else the accelerator that torch finds."""
    chosen = _in_use.get()
    if chosen is not None:
        return chosen
    if torch.cuda.is_available():
        return "cuda"
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    # Apple's has no numbers, which the vendored code asks for.
    return found.type if found is not None and hasattr(torch.get_device_module(found.type), "current_device") else "cpu"


def current_device() -> Any:
    """Return the device to compute on as torch takes it: its number, or "cpu"."""
    return torch.get_device_module(get_device_name()).current_device()


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
