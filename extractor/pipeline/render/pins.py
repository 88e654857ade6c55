"""The exact versions that a project is installed with, transitive ones and all: its requirements.lock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from extractor.values import resources
from extractor.values.manifest import Manifest
from extractor.values.manifest.table import read_toml
from extractor.values.options import Options


def pins_for(manifest: Manifest, options: Options) -> tuple[str, ...]:
    """List what a project with these options needs, and what that needs in turn, as lines of a constraints file.

    Args:
        manifest: The release; one that is not supported may ask for what no lock has, which is left out then.
        options: The project's choices.

    Returns:
        "name==version", some with a marker, sorted; empty where the engine has no lock.
    """
    locked = lock_of(options.engine)
    needs = map(Requirement, needs_of(manifest, options))
    ranges: dict[str, Requirement] = {canonicalize_name(item.name): item for item in needs}
    found = closure(ranges, locked)
    lines = []
    for name in sorted(found):
        for version in locked[name]["versions"]:
            if name not in ranges or _number(version) in ranges[name].specifier:
                lines.append(f"{name}{version}")
    return tuple(lines)


def needs_of(manifest: Manifest, options: Options) -> tuple[str, ...]:
    """List what `make setup` asks for: the project's requirements, and those of its extra `dev`."""
    return (*manifest.requirements_for(options), *manifest.requirements.dev)


def closure(names: Iterable[str], locked: Mapping[str, Any]) -> set[str]:
    """Collect the locked packages that these need, themselves among them."""
    found: set[str] = set()
    pending = [name for name in names if name in locked]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(locked[name]["requires"])
    return found


def lock_of(engine: str) -> Mapping[str, Any]:
    """Read what scripts/locks.py resolved for an engine: name -> its versions, and the names that it requires."""
    path = resources.locks() / f"{engine}.toml"
    return read_toml(path.read_text(encoding="utf-8"), path.name) if path.is_file() else {}


def _number(version: str) -> str:
    """Take the number from "==1.2 ; marker"."""
    return re.split(r"[ ;]", version.removeprefix("=="), maxsplit=1)[0]
