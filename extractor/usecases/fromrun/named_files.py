"""The Python files that a run's config names, among the hooks of its project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extractor.pipeline.source import Source
from extractor.usecases.fromrun.files import Copied, Copying, Places
from extractor.usecases.fromrun.meaning import Remark
from extractor.values import limits, readers
from extractor.values.errors import UsageError
from extractor.values.tree import File, FileKind, Tree


@dataclass(frozen=True)
class _Kind:
    """Something that a run's config names by the file that it is in, and the name that it has there."""

    section: str
    default: str | None
    target: str


_KINDS = (
    _Kind("custom_reward_function", "compute_score", "custom/verl_reward.py"),
    _Kind("data.custom_cls", None, "custom/verl_dataset.py"),
)


def function_text(places: Places, path: str, source: Source) -> str | None:
    """Return the text of a file that a run names: on disk, or one of verl's own; None where there is none."""
    place = places.find(path)
    if place is not None:
        return readers.python_text(readers.read_bytes(place, limits.MAX_TEXT))
    own = path[path.find("verl/") :] if "verl/" in path else ""
    return source.read(own) if own in source.files else None


def take(
    tree: Tree, package: str, source: Source, places: Places, settings: Mapping[str, Any]
) -> tuple[dict[str, File], dict[str, Any], list[Remark]]:
    """Copy the files that settings name.

    Args:
        tree: The project's files.
        package: Its package.
        source: verl, of the run's release.
        places: Where the run may have been started from.
        settings: By the project's keys.

    Returns:
        The copies by path, the settings that name them now, and what a user should know.
    """
    files: dict[str, File] = {}
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    copying = Copying(package, tree, source, places)
    for kind in _KINDS:
        key = next((name for name in settings if name.endswith(f"{kind.section}.path")), None)
        if key is None or not settings[key]:
            continue
        path, name = str(settings[key]), settings.get(f"{key.removesuffix('.path')}.name", kind.default)
        target = f"{package}/{kind.target}"
        try:
            text = function_text(places, path, source)
            copied = None if text is None else copying.copy(text, [name] if name else [])
        except (
            SyntaxError,
            UsageError,
            OSError,
        ) as error:  # only Python gets into a project
            remarks.append(Remark(key, path, "to do", f"not copied: it is no Python ({_said(error)})"))
            changed[key] = target
            continue
        if copied is None:
            remarks.append(Remark(key, path, "to do", f"not found: put it at {target}, or say --cwd"))
        else:
            files[target] = File(target, FileKind.HOOK, copied.text.encode())
            remarks += _remarks(key, path, target, copied)
        changed[key] = target
    for path, text in copying.files.items():
        files[f"{package}/{path}"] = File(f"{package}/{path}", FileKind.HOOK, text.encode())
    return files, changed, remarks


def _said(error: Exception) -> str:
    return str(getattr(error, "msg", None) or error)


def _remarks(key: str, path: str, target: str, copied: Copied) -> list[Remark]:
    found = [Remark(key, path, "changed", f"copied to {target}, with what it imports")]
    if copied.left_out:
        names = ", ".join(copied.left_out)
        found.append(Remark(key, path, "changed", f"{target} goes without {names}: nothing here needs it"))
    found += [Remark(key, path, "to do", f"{target} cannot be imported: {why}") for why in copied.missing]
    if copied.packages:
        found.append(Remark(key, path, "to do", f"{target} needs packages: pip install {' '.join(copied.packages)}"))
    return found
