"""Import every vendored module where only the required packages, and neither Ray nor verl, can be imported."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import re
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .blocking import block


def main(job_path: Path, result_path: Path) -> None:
    """Run the job: {root, modules, forbidden, required, optional}."""
    job = json.loads(job_path.read_text(encoding="utf-8"))
    blocked = unneeded(job["required"], job["optional"]) | set(job["forbidden"])
    block(blocked)
    sys.path.insert(0, job["root"])
    errors: dict[str, dict[str, Any]] = {}
    missing = set()
    for name in job["modules"]:
        try:
            importlib.import_module(name)
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and error.name:
                missing.add(error.name.partition(".")[0])
            frames = traceback.extract_tb(error.__traceback__)
            inside = [frame for frame in frames if frame.filename.startswith(job["root"])]
            errors[name] = {
                "error": f"{type(error).__name__}: {error}",
                "file": inside[-1].filename if inside else None,
                "line": inside[-1].lineno if inside else None,
            }
    leaked = sorted(name for name in sys.modules if name.partition(".")[0] in job["forbidden"])
    result = {
        "errors": errors,
        "leaked": leaked,
        "missing": sorted(missing),
        "blocked": sorted(blocked - set(job["forbidden"])),
    }
    result_path.write_text(json.dumps(result), encoding="utf-8")


def unneeded(required: Iterable[str], optional: Iterable[str]) -> set[str]:
    """Top-level packages that a fresh environment with only the requirements would not have."""
    needed = closure(required)
    found = set(optional)
    installed = importlib.metadata.packages_distributions()
    for package, distributions in installed.items():
        if package.isidentifier() and not package.startswith("_"):
            found.add(package)
            if any(normalised(name) in needed for name in distributions):
                found.discard(package)
    # What this process has loaded to get here is part of Python.
    return {name for name in found if name not in sys.modules and name not in sys.stdlib_module_names}


def closure(names: Iterable[str]) -> set[str]:
    """Return the distributions with all that they require, extras left out."""
    pending = [normalised(name) for name in names]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        try:
            wanted = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for line in wanted:
            requirement, _, marker = line.partition(";")
            match = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
            if match and "extra" not in marker:
                pending.append(normalised(match.group()))
    return found


def normalised(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
