# vextract:vendored from verl 0.9.1: verl/utils/device.py
# upstream sha256: 0ce776f6e083e1919d4be28092b49b8a7f666aad1da88b4509aeb625c0868617
# changed: dropped 14 unreachable definitions: logger, is_cuda_available, get_resource_name, get_vendor,
#   get_visible_devices_keyword and 9 more
# changed: imports redirected to the modules that define the names, unused ones dropped
# Copyright 2025 Bytedance Ltd. and/or its affiliates
#
# This code is inspired by the torchtune.
# https://github.com/pytorch/torchtune/blob/main/torchtune/utils/_device.py
#
# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license in https://github.com/pytorch/torchtune/blob/main/LICENSE

"""Backward-compatible device utilities.

All public names in this module are preserved for existing callers (80+ import
sites).  Internally every function now delegates to the platform abstraction
layer in :mod:`verl.plugin.platform`.
"""

import torch

from generated_example.shims.platform import get_platform


# ---------------------------------------------------------------------------
# Module-level availability flags (kept for backward compatibility)
# ---------------------------------------------------------------------------


def is_torch_npu_available(check_device=True) -> bool:
    """Check if Ascend NPU is available for PyTorch operations.

    Attempts to detect NPU availability by checking for the torch.npu module
    and its is_available() function.

    Args:
        check_device : only check torch_npu package or strictly check if NPU device is available

    Returns:
        bool: True if NPU is available, False otherwise.
    """
    try:
        if not hasattr(torch, "npu"):
            return False

        if check_device:
            return torch.npu.is_available()
        else:
            return True
    except ImportError:
        return False


is_npu_available = is_torch_npu_available()


# ---------------------------------------------------------------------------
# Device info helpers
# ---------------------------------------------------------------------------


def get_device_name() -> str:
    """Get the device type string based on available accelerators.

    Returns:
        str: Device type string ('cuda', 'npu', 'cpu', …).
    """
    return get_platform().device_name


def get_torch_device():
    """Get the PyTorch device module for the current accelerator.

    Returns:
        module: The PyTorch device module (torch.cuda, torch.npu, etc.).
    """
    return get_platform().device_module


def get_device_id() -> int:
    """Get the index of the current accelerator device.

    Returns:
        int: The current device index (e.g., 0 for 'cuda:0').
    """
    return get_platform().current_device()


# ---------------------------------------------------------------------------
# RNG helpers
# ---------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Set the seed for the current accelerator device.

    Args:
        seed: The desired seed.
    """
    get_platform().manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Set the seed for all accelerator devices.

    Args:
        seed: The desired seed.
    """
    get_platform().manual_seed_all(seed)
