# vextract:template base/__package__/tracking/trackers.py - edit freely
"""Where a run's numbers can go besides its own files: a class for each tracker that `trainer.logger` may name."""

import importlib.util
from collections.abc import Iterator
from typing import Any

from ..absent import MODULES
from ..output import install_command
from ..settings.setting import choose
from .tensorboard import TensorBoard

TRACKER_CLASSES: dict[str, Any] = {"tensorboard": TensorBoard}
# `file` is verl's name for a file of JSON lines, which metrics.jsonl always is.
LOGGERS = ("console", "file", *TRACKER_CLASSES)
# Modules of trackers that this project may lack, each called as its tracker is.
OTHERS = "tracking.services."


def logger_names(config: Any) -> list[str]:
    """Return what `trainer.logger` lists; it may be a single name."""
    names = config["trainer"].get("logger") or []
    return [names] if isinstance(names, str) else [str(name) for name in names]


def unknown_loggers(config: Any) -> Iterator[tuple[str, str]]:
    """Say which names in `trainer.logger` are not those of a logger, each with a hint."""
    absent = {module.removeprefix(OTHERS): part for module, part in MODULES.items() if module.startswith(OTHERS)}
    for name in logger_names(config):
        if name not in LOGGERS:
            hint = f"vextract add {absent[name]}" if name in absent else choose(name, (*LOGGERS, *absent))
            yield f"trainer.logger names {name!r}, which is not a logger here", hint


def missing_loggers(config: Any) -> Iterator[tuple[str, str]]:
    """Say which trackers in `trainer.logger` are not installed, each with a hint."""
    for name in logger_names(config):
        tracker = TRACKER_CLASSES.get(name)
        if tracker is not None and not is_installed(tracker.package):
            yield (
                f"trainer.logger names {name}, and the package {tracker.package} is not installed",
                install_command(tracker.requirement),
            )


def is_installed(package: str) -> bool:
    """Tell whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
