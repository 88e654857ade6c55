# vextract:template - edit freely
"""The device of each part of a run; and a reference that accelerate spreads over several: it only infers."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import nn

from ..shims.device import computing_on, here, to_dtype
from .models import load_pretrained

OFFLOADED = "reference_offload"


def device_of(config: Any, part: str) -> torch.device:
    """Return the device of a part of the run.

    Args:
        config: the whole config, whose `local.devices` has been checked.
        part: policy (what is trained: the critic as well), reference or rollout; the others follow the policy.
    """
    chosen = config.local.devices[part] or config.local.devices.policy
    if chosen is None:
        return here()
    with computing_on(torch.device(chosen)):
        return here()


def spread_reader(config: Any) -> Callable[..., Any] | None:
    """Return what reads the reference as `local.devices.reference_map` says, like `from_pretrained`; None: it is null.

    What the map puts on `disk` is kept in the run's directory.
    """
    spread = config.local.devices.reference_map
    if spread is None:
        return None
    device_map = spread if isinstance(spread, str) else OmegaConf.to_container(spread, resolve=True)
    arguments = {
        "device_map": device_map,
        "torch_dtype": to_dtype(config.actor_rollout_ref.ref.fsdp_config.model_dtype),
        "offload_folder": str(Path(config.trainer.default_local_dir) / OFFLOADED),
    }
    return partial(_read, arguments)


def first_device(module: nn.Module) -> torch.device:
    """Return the device that a batch goes to first: accelerate takes it from there, and brings back what comes out."""
    found = next((parameter.device for parameter in module.parameters() if not parameter.is_meta), None)
    return found or torch.device("cpu")


def _read(spread: dict[str, Any], auto_class: Any, path: str, **arguments: Any) -> Any:
    return load_pretrained(auto_class, path, **spread, **arguments)
