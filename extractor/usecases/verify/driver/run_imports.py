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
    """Run the job: {root, package, modules, forbidden, required, optional}."""
    job = json.loads(job_path.read_text(encoding="utf-8"))
    root = job["root"]
    blocked = unneeded(job["required"], job["optional"], {job["package"], *tops_of(Path(root))}) | set(job["forbidden"])
    block(blocked)
    sys.path.insert(0, root)
    errors: dict[str, dict[str, Any]] = {}
    missing = set()
    for name in job["modules"]:
        try:
            importlib.import_module(name)
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and error.name:
                missing.add(error.name.partition(".")[0])
            frames = traceback.extract_tb(error.__traceback__)
            inside = [frame for frame in frames if _is_inside(Path(frame.filename), Path(root))]
            errors[name] = {
                "error": f"{type(error).__name__}: {error}",
                "file": Path(inside[-1].filename).relative_to(root).as_posix() if inside else None,
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


def _is_inside(file: Path, root: Path) -> bool:
    """Tell whether a file is the project's own, and not one of the environment that may lie in the project."""
    return file.is_relative_to(root) and not file.is_relative_to(sys.prefix)


def tops_of(root: Path) -> set[str]:
    """Return top-level modules and packages that lie in the project itself."""
    return {
        item.stem
        for item in root.iterdir()
        if item.suffix == ".py" or (item.is_dir() and (item / "__init__.py").exists())
    }


def unneeded(required: Iterable[str], optional: Iterable[str], own: Iterable[str]) -> set[str]:
    """Return top-level packages that a fresh environment with only the requirements would not have.

    Args:
        required: The project's requirements, as pyproject.toml writes them.
        optional: Packages to count among the unneeded ones even where no metadata names them.
        own: The project's own packages: an environment in which the project is installed names them as well.
    """
    needed = closure(required)
    found, kept = set(optional), set(own)
    for distribution in importlib.metadata.distributions():
        name = normalised(distribution.metadata["Name"] or "")
        (kept if name in needed else found).update(provided_by(distribution))
    names = {name for name in found - kept if name.isidentifier() and not name.startswith("_")}
    # What this process has loaded to get here is part of Python.
    return {name for name in names if name not in sys.modules and name not in sys.stdlib_module_names}


def provided_by(distribution: importlib.metadata.Distribution) -> set[str]:
    """Return top-level names that a distribution brings; most build tools no longer write them down."""
    text = distribution.read_text("top_level.txt")
    if text:
        return set(text.split())
    files = [Path(file) for file in distribution.files or ()]
    return {
        file.parts[0] if len(file.parts) > 1 else file.stem for file in files if file.suffix in (".py", ".so", ".pyd")
    }


def closure(required: Iterable[str]) -> set[str]:
    """Return the names of the distributions that requirements bring, with what these require and their extras."""
    pending = list(required)
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while pending:
        name, extras = parsed(pending.pop())
        found.add(name)
        for extra in ("", *extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                wanted = importlib.metadata.requires(name) or []
            except importlib.metadata.PackageNotFoundError:
                continue
            pending += [line for line in wanted if extra in (asked_by(line) or {""})]
    return found


def parsed(requirement: str) -> tuple[str, list[str]]:
    """Name and extras of a requirement."""
    match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?", requirement)
    assert match is not None, requirement
    return normalised(match[1]), [normalised(extra.strip()) for extra in (match[2] or "").split(",") if extra.strip()]


def asked_by(requirement: str) -> set[str]:
    """Return the extras for which alone a requirement holds."""
    marker = requirement.partition(";")[2]
    return {normalised(extra) for extra in re.findall(r"""\bextra\s*==\s*['"]([^'"]+)['"]""", marker)}


def normalised(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
