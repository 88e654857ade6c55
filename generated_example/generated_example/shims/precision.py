# vextract:template shims/precision.py - edit freely
"""The dtype that a forward pass computes in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

_DTYPES = {
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
    "half": torch.float16,
    "float32": torch.float32,
    "fp32": torch.float32,
}


def autocast_dtype(config: Mapping[str, Any]) -> torch.dtype:
    """Return the dtype for `torch.autocast`, as the configuration names it.

    Looks for `dtype`, then `fsdp_config.dtype`, then `model.fsdp_config.dtype`; without any of them bfloat16, as
    upstream has it everywhere.

    Raises:
        ValueError: the configured name is not a dtype.
    """
    name = _find(config, ("dtype",)) or _find(config, ("fsdp_config", "dtype"))
    name = name or _find(config, ("model", "fsdp_config", "dtype")) or "bfloat16"
    return to_dtype(name)


def to_dtype(name: str | torch.dtype) -> torch.dtype:
    """Return the dtype called `name` ("bfloat16", "bf16", "torch.bfloat16"); a dtype is returned as it is.

    Raises:
        ValueError: there is no such dtype.
    """
    if isinstance(name, torch.dtype):
        return name
    try:
        return _DTYPES[str(name).removeprefix("torch.").lower()]
    except KeyError:
        raise ValueError(f"unknown dtype {name!r}; one of {', '.join(sorted(_DTYPES))}") from None


@contextmanager
def keeping_casts(keeps: bool) -> Iterator[None]:
    """Have autocast keep weights in its dtype within it, until the end of the forward pass; or have it keep none."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(keeps)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _find(config: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        if config is None or not hasattr(config, "get"):
            return None
        config = config.get(key, None)
    return config
