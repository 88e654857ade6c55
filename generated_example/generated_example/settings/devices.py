# vextract:template base/__package__/settings/devices.py - edit freely
"""The device of a run, and what depends on it."""

from collections.abc import Iterator

from omegaconf import DictConfig

AUTO = "auto"
# What local.max_logits_mb=auto is. On a GPU each piece costs time of its own: its calls are started one by one, and the
# gradient of the last layer is read and written once more.
LOGITS_MB = {"cpu": 128, "cuda": 512}


def settle_on(config: DictConfig, device: str) -> None:
    """Have the run compute on `device`, cpu or cuda, and fill in what depends on it."""
    config.local.device = device
    config.local.dtype = config.local.dtype or ("bfloat16" if device == "cuda" else "float32")


def logits_problems(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Say what `local.max_logits_mb` cannot be, with a hint."""
    most = config.local.max_logits_mb
    if isinstance(most, str) and most != AUTO:
        yield f"local.max_logits_mb is {most!r}", "give a number of MiB, auto, or null: always whole"
