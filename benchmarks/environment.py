"""The environment of what is measured."""

from __future__ import annotations

import os


def on_one_thread(**further: str) -> dict[str, str]:
    """Return this process's environment with what makes runs comparable: one thread, no GPU, no network."""
    settings = {
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    return {**os.environ, **settings, **further}
