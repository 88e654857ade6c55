"""Read the packages that a project requires, by import name."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from extractor.values import readers

# Distributions whose import name is not their own with "-" as "_".
_IMPORT_NAMES = {
    "antlr4-python3-runtime": "antlr4",
    "flash-attn": "flash_attn",
    "hydra-core": "hydra",
    "opencv-python": "cv2",
    "pillow": "PIL",
    "protobuf": "google",
    "python-dateutil": "dateutil",
    "pyyaml": "yaml",
    "pyzmq": "zmq",
    "scikit-learn": "sklearn",
    "torch-npu": "torch_npu",
}


def lines(project: Path) -> tuple[str, ...]:
    """Return the requirements of `pyproject.toml` without an extra, as they stand there; no others."""
    items = _section(project).get("dependencies")
    return tuple(item for item in items if _names([item])) if isinstance(items, list) else ()


def declared(project: Path) -> tuple[str, ...]:
    """Name the distributions that `pyproject.toml` requires without an extra; none where it is damaged."""
    return _names(_section(project).get("dependencies"))


def extras(project: Path) -> tuple[str, ...]:
    """Return the distributions that `pyproject.toml` names for some extra."""
    groups = _section(project).get("optional-dependencies")
    if not isinstance(groups, dict):
        return ()
    return tuple(sorted({name for items in groups.values() for name in _names(items)}))


def of_build(project: Path) -> tuple[str, ...]:
    """Return the distributions that `pyproject.toml` requires to build the project."""
    return _names(_section(project, "build-system").get("requires"))


def _section(project: Path, name: str = "project") -> Mapping[str, object]:
    try:
        data = readers.toml(readers.read_text(project / "pyproject.toml"))
    except (OSError, readers.TOMLDecodeError):
        return {}
    section = data.get(name)
    return section if isinstance(section, dict) else {}


def _names(items: object) -> tuple[str, ...]:
    found = set()
    for item in items if isinstance(items, list) else ():
        with contextlib.suppress(InvalidRequirement, TypeError):
            found.add(Requirement(item).name.lower())
    return tuple(sorted(found))


def import_name(distribution: str) -> str:
    """Return the top-level name that a distribution is imported by."""
    return _IMPORT_NAMES.get(distribution.lower(), distribution.lower().replace("-", "_"))
