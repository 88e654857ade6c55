# vextract:template base/__package__/workers/devices.py - edit freely
"""The device that each part of a run computes on."""

from typing import Any

import torch

from ..shims.device import computing_on, get_device_name

__all__ = ["computing_on", "device_of", "get_device_name", "here"]


def here() -> torch.device:
    """Return the device that this process computes on, or that `computing_on` names."""
    name = get_device_name()
    return torch.device(name) if name == "cpu" else torch.device(name, torch.get_device_module(name).current_device())


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
