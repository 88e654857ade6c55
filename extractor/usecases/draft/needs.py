"""List the packages that a release newly requires."""

from __future__ import annotations

import re
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from extractor.pipeline.source import Source
from extractor.usecases.draft.findings import Note

Full = dict[str, Any]


def changed_requirements(data: Full, old: Source, new: Source) -> list[Note]:
    """Raise lower bounds in `requirements.base` where upstream raised its own; remark on all else that changed.

    Upper bounds are not taken over: upstream often sets them for its other engines, and what was tested decides.
    """
    where = "requirements"
    if old.requires is None or new.requires is None:
        return [Note(where, "the source has no metadata, so that changed requirements were not looked for")]
    before, after = _by_name(old.requires), _by_name(new.requires)
    base = data["requirements"]["base"]
    ours = {str(canonicalize_name(Requirement(item).name)): at for at, item in enumerate(base)}
    notes = []
    for name, item in after.items():
        was = before.get(name)
        if was is not None and was.specifier == item.specifier:
            continue
        said = f"upstream now requires {item}" + (f" (before: {was})" if was is not None else "")
        if name not in ours:
            if was is None:
                notes.append(Note(where, f"{said}; no project did so far", todo=False))
            continue
        mine = base[ours[name]]
        raised = _raised(mine, item.specifier)
        if raised != mine:
            base[ours[name]] = raised
            notes.append(Note(where, f"{said}: the lower bound was raised; are the tested versions within it?"))
        else:
            notes.append(Note(where, f"{said}; a project's {mine} was left as it is", todo=False))
    return notes


def _by_name(lines: tuple[str, ...]) -> dict[str, Requirement]:
    found: dict[str, Requirement] = {}
    for line in lines:
        try:
            item = Requirement(line)
        except InvalidRequirement:
            continue
        found[canonicalize_name(item.name)] = item
    return found


def _raised(mine: str, theirs: SpecifierSet) -> str:
    """Return a requirement with the other's lower bound, where that is higher, and what the other excludes."""
    parsed = Requirement(mine)
    lowest = [item for item in theirs if item.operator == ">="]
    own = [item for item in parsed.specifier if item.operator == ">="]
    if not lowest or (own and Version(own[0].version) >= Version(lowest[0].version)):
        return mine
    named, written = re.fullmatch(r"([\w.\[\]-]+)(.*)", mine).groups()  # type: ignore[union-attr]
    kept = [item for item in written.split(",") if item and not item.startswith(">=")]
    excluded = sorted(str(item) for item in theirs if item.operator == "!=" and str(item) not in kept)
    return named + ",".join([f">={_short(lowest[0].version)}", *excluded, *kept])


def _short(version: str) -> str:
    """2.0.0 -> 2, which means the same."""
    return re.sub(r"(\.0)+$", "", version)
