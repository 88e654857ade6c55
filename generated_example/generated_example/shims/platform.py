# vextract:template shims/platform.py - edit freely
"""The device that a process computes on: an accelerator that torch knows, or the CPU."""

from __future__ import annotations

import functools
from types import ModuleType

import torch

from .device import get_device_name


class Platform:
    """Answers what the vendored code asks of the device.

    Args:
        device_name: as torch calls it: "cuda", "npu", "xpu", "cpu".
    """

    def __init__(self, device_name: str) -> None:
        self.device_name = device_name
        self.device_module: ModuleType = getattr(torch, device_name)

    @property
    def vendor_name(self) -> str:
        """Say who makes it, as upstream calls them; of others the device's name."""
        if self.device_name == "cuda":
            return "amd" if torch.version.hip else "nvidia"
        return "huawei" if self.device_name == "npu" else self.device_name

    def current_device(self) -> int | str:
        """Return the index of the device that this process uses; for the CPU "cpu"."""
        found: int | str = self.device_module.current_device()
        return found

    def manual_seed(self, seed: int) -> None:
        """Seed this device's random numbers."""
        if self.device_name != "cpu":
            self.device_module.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed the random numbers of all devices."""
        if self.device_name != "cpu":
            self.device_module.manual_seed_all(seed)


def get_platform() -> Platform:
    """Return the platform of what computes now: see `get_device_name`."""
    return _platform(get_device_name())


@functools.cache
def _platform(device_name: str) -> Platform:
    return Platform(device_name)
