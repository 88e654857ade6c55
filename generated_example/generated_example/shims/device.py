# vextract:template shims/device.py - edit freely
"""The device and the dtype that a process computes with: an accelerator that torch knows, or the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import torch

_in_use: ContextVar[str | None] = ContextVar("device", default=None)
_NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "half": "float16"}


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


def here() -> torch.device:
    """Return the device that this process computes on, or that `computing_on` names."""
    name = get_device_name()
    return torch.device(name) if name == "cpu" else torch.device(name, torch.get_device_module(name).current_device())


def empty_cache() -> None:
    """Give cached device memory back; on a CPU there is none to give."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def get_platform() -> SimpleNamespace:
    """Return what the vendored code asks of the device that computes now: see `get_device_name`."""
    name = get_device_name()
    module: Any = torch.get_device_module(name)
    seeds = {kind: getattr(module, kind, lambda seed: None) for kind in ("manual_seed", "manual_seed_all")}
    return SimpleNamespace(device_name=name, device_module=module, current_device=module.current_device, **seeds)


def autocast_dtype(config: Mapping[str, Any]) -> torch.dtype:
    """Return the dtype for `torch.autocast`: `dtype`, `fsdp_config.dtype` or `model.fsdp_config.dtype`, or bfloat16.

    Raises:
        ValueError: the configured name is not a dtype.
    """
    fsdp = config.get("fsdp_config") or (config.get("model") or {}).get("fsdp_config") or {}
    return to_dtype(config.get("dtype") or fsdp.get("dtype") or "bfloat16")


def to_dtype(name: str | torch.dtype) -> torch.dtype:
    """Return the dtype called `name` ("bfloat16", "bf16", "torch.bfloat16"); a dtype is returned as it is.

    Raises:
        ValueError: there is no such dtype.
    """
    if isinstance(name, torch.dtype):
        return name
    word = str(name).removeprefix("torch.").lower()
    full = _NAMES.get(word, word)
    if full not in _NAMES.values():
        raise ValueError(f"unknown dtype {name!r}; such as bfloat16, float16 or float32")
    return getattr(torch, full)


@contextmanager
def keeping_casts(keeps: bool) -> Iterator[None]:
    """Have autocast keep weights in its dtype within it, until the end of the forward pass; or have it keep none."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(keeps)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
