# vextract:template base/__package__/workers/devices.py - edit freely
"""The device that a run computes on."""

import torch

from ..shims.device import computing_on, get_device_name

__all__ = ["computing_on", "get_device_name", "here"]


def here() -> torch.device:
    """Return the device that this process computes on, or that `computing_on` names."""
    name = get_device_name()
    return torch.device(name) if name == "cpu" else torch.device(name, torch.get_device_module(name).current_device())
