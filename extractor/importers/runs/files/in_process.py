"""What a run's own file uses of Ray, in the project's process: for reward functions that score in parallel."""

from __future__ import annotations

from collections.abc import Collection

from extractor.importers.runs import templates

# The module that copies import instead of Ray, and what it has.
MODULE = "in_process"
_NAMES = {"cancel", "exceptions", "get", "init", "is_initialized", "kill", "logger", "put", "remote", "wait"}
_EXCEPTIONS = {
    "GetTimeoutError",
    "RayActorError",
    "RayError",
    "RayTaskError",
    "TaskCancelledError",
    "WorkerCrashedError",
}


def text() -> str:
    """Return the text of the module."""
    return templates.render(f"{MODULE}.py", exceptions=sorted(_EXCEPTIONS))


def has(module: str, name: str | None, attributes: Collection[str]) -> bool:
    """Tell whether the module has what a file imports of Ray.

    Args:
        module: "ray", or one below it.
        name: What the file takes from it; None: the module itself.
        attributes: What it uses of the module.
    """
    if module == "ray":
        return name in _NAMES if name is not None else set(attributes) <= _NAMES
    return module == "ray.exceptions" and name in _EXCEPTIONS
