# vextract:template base/__package__/tracking/trackers.py - edit freely
"""Where a run's numbers can go besides its own files: a class for each tracker that `trainer.logger` may name."""

import importlib.util
from typing import Any

from .tensorboard import TensorBoard

TRACKER_CLASSES: dict[str, Any] = {"tensorboard": TensorBoard}
# `file` is verl's name for a file of JSON lines, which metrics.jsonl always is.
LOGGERS = ("console", "file", *TRACKER_CLASSES)


def logger_names(config: Any) -> list[str]:
    """Return what `trainer.logger` lists; it may be a single name."""
    names = config["trainer"].get("logger") or []
    return [names] if isinstance(names, str) else [str(name) for name in names]


def is_installed(package: str) -> bool:
    """Tell whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
