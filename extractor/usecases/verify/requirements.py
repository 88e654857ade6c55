"""Read the packages that a project requires, by import name."""

import contextlib
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from extractor.values import readers

# Distributions whose import name is not their own with "-" as "_".
_IMPORT_NAMES = {
    "antlr4-python3-runtime": "antlr4",
    "hydra-core": "hydra",
    "opencv-python": "cv2",
    "pillow": "PIL",
    "protobuf": "google",
    "python-dateutil": "dateutil",
    "pyyaml": "yaml",
    "pyzmq": "zmq",
    "scikit-learn": "sklearn",
}


def read(project: Path) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return required, optional and build distributions named in `pyproject.toml`."""
    extras = _read_section(project).get("optional-dependencies")
    groups = extras.values() if isinstance(extras, dict) else ()
    with_extra = {name for items in groups for name in _read_names(items)}
    return (
        read_declared(project),
        tuple(sorted(with_extra)),
        _read_names(_read_section(project, "build-system").get("requires")),
    )


def read_declared(project: Path) -> tuple[str, ...]:
    """Return distributions required without an extra; none if `pyproject.toml` is damaged."""
    return _read_names(_read_section(project).get("dependencies"))


def _read_section(project: Path, name: str = "project") -> dict[str, Any]:
    try:
        section = readers.parse_toml(readers.read_text(project / "pyproject.toml")).get(name)
    except (OSError, readers.TOMLDecodeError):
        return {}
    return section if isinstance(section, dict) else {}


def _read_names(items: object) -> tuple[str, ...]:
    found = set()
    for item in items if isinstance(items, list) else ():
        with contextlib.suppress(InvalidRequirement, TypeError):
            found.add(Requirement(item).name.lower())
    return tuple(sorted(found))


def import_name(distribution: str) -> str:
    """Return the top-level name that a distribution is imported by."""
    return _IMPORT_NAMES.get(distribution.lower(), distribution.lower().replace("-", "_"))
