# vextract:template base/__package__/workers/determinism.py - edit freely
"""The same bits in each run on a GPU, where some kernels add up in an order that changes from run to run."""

import os

import torch

__all__ = ["always_the_same"]

# What libraries read when they are first used. Neither is changed where somebody has set it.
ENVIRONMENT = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "FLASH_ATTENTION_DETERMINISTIC": "1",
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
    "VERL_DISABLE_FLASH_ATTN_CE": "1",  # flash-attn's log-probabilities, in vendored code that asks
}


def always_the_same() -> None:
    """Have torch, and libraries below it, take kernels that add up in one order, for the rest of this process.

    Where there is no such kernel torch says so, once, and takes the one that there is. As upstream's
    `enable_full_determinism` (verl/workers/engine/utils.py), but seeds are left alone, and cuDNN on.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # for debugging: nothing here reads such memory
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
