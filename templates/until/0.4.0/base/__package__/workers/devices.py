# vextract:template - edit freely
"""The device that this process computes on."""

from ..vendored.utils.device import get_device_name, get_torch_device

__all__ = ["get_device_id", "get_device_name"]


def get_device_id() -> int | str:
    """Return the index of the accelerator that this process uses; "cpu" where there is none."""
    return "cpu" if get_device_name() == "cpu" else int(get_torch_device().current_device())
