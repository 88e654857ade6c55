"""Read the packages that a project requires, by import name."""

import contextlib
from pathlib import Path

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


def read(project: Path) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return import names of required, optional and build packages; none if `pyproject.toml` is damaged."""
    try:
        data = readers.parse_toml(readers.read_text(project / "pyproject.toml"))
    except (OSError, readers.TOMLDecodeError):
        data = {}
    section, build = (
        found if isinstance(found := data.get(name), dict) else {} for name in ("project", "build-system")
    )
    extras = section.get("optional-dependencies")
    optional = [item for items in extras.values() for item in items] if isinstance(extras, dict) else []
    return _read_names(section.get("dependencies")), _read_names(optional), _read_names(build.get("requires"))


def _read_names(items: object) -> frozenset[str]:
    found = set()
    for item in items if isinstance(items, list) else ():
        with contextlib.suppress(InvalidRequirement, TypeError):
            found.add(import_name(Requirement(item).name))
    return frozenset(found)


def import_name(distribution: str) -> str:
    """Return the top-level name that a distribution is imported by."""
    return _IMPORT_NAMES.get(distribution.lower(), distribution.lower().replace("-", "_"))
