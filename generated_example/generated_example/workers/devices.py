# vextract:template base/__package__/workers/devices.py - edit freely
"""The device that this process computes on."""

from ..vendored.utils.device import get_device_id, get_device_name

__all__ = ["get_device_id", "get_device_name"]
