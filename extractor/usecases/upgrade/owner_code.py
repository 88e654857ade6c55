"""Read the owner's code for what it needs of verl."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from extractor.project.lock import Lock
from extractor.usecases.explain.ours import own_files
from extractor.usecases.kept_methods import MethodDemand, of_code, of_edits
from extractor.values.tree import FileKind


def wanted(project: Path, lock: Lock, base: Mapping[str, bytes]) -> MethodDemand:
    """Return what hooks, the owner's files and edits need of verl.

    Args:
        project: Its directory.
        lock: Its lock.
        base: What was emitted, by path, for all but hooks.
    """
    found = MethodDemand()
    package = lock.options.package
    for entry in lock.files:
        text = _text(project, entry.path)
        if text is None:
            continue
        if entry.kind is FileKind.HOOK:
            found |= of_code(text, package)
        elif text.encode() != base[entry.path]:
            found |= of_edits(base[entry.path].decode("utf-8", "replace"), text, package)
    for path in own_files(project, lock):
        found |= of_code(_text(project, path) or "", package)
    return found


def _text(project: Path, path: str) -> str | None:
    """Read a Python file; None if it cannot be read."""
    if not path.endswith(".py"):
        return None
    try:
        return (project / path).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
