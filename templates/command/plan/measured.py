"""What no model's shape tells, and is found out by trying: the program itself, and what an optimizer keeps."""

import resource
import sys
from importlib import import_module
from typing import Any

import torch
from omegaconf import OmegaConf
from torch.utils.checkpoint import checkpoint

from ..workers.role_configs import build_optimizer

SAMPLE = 128  # rows and columns of the weights that an optimizer is tried on


def program_size(adapter: bool) -> int:
    """Return the bytes that this process holds with all that a run imports, with peft too, before it loads anything."""
    from ..training import trainer  # noqa: F401 - imported to be there

    if adapter:
        import_module("peft")

    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([weight])
    checkpoint(torch.square, weight, use_reentrant=False).backward()
    optimizer.step()  # the first one imports more
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def optimizer_factor(node: dict[str, Any], dtype: torch.dtype) -> float:
    """Return how many times the bytes of weights an optimizer's state of them has, which a step of it shows."""
    weight = torch.nn.Parameter(torch.zeros(SAMPLE, SAMPLE, dtype=dtype))
    optimizer = build_optimizer([weight], OmegaConf.create(node))
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    states = (one for one in optimizer.state[weight].values() if isinstance(one, torch.Tensor) and one.dim() > 0)
    return sum(one.numel() * one.element_size() for one in states) / (weight.numel() * weight.element_size())
