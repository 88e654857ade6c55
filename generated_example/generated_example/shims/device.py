# vextract:template - edit freely; upgrades merge your edits
"""Device helpers that upstream's code expects of every backend, and that a CPU lacks."""

from __future__ import annotations

import torch


def empty_cache() -> None:
    """Give cached device memory back; on a CPU there is none to give."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
