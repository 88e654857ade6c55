"""What a project declares that it needs, as the names that Python imports."""

from __future__ import annotations

import sys
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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


def declared(project: Path) -> tuple[str, ...]:
    """Distributions that `pyproject.toml` requires without an extra; empty where there is none or it is damaged."""
    try:
        data = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
        wanted = data["project"]["dependencies"]
        return tuple(sorted({Requirement(item).name.lower() for item in wanted}))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, InvalidRequirement):
        return ()


def extras(project: Path) -> tuple[str, ...]:
    """Distributions that `pyproject.toml` names for some extra."""
    try:
        data = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
        groups = data["project"].get("optional-dependencies", {})
        return tuple(sorted({Requirement(item).name.lower() for items in groups.values() for item in items}))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError, InvalidRequirement):
        return ()


def import_name(distribution: str) -> str:
    """The top-level name that a distribution is imported by."""
    return _IMPORT_NAMES.get(distribution.lower(), distribution.lower().replace("-", "_"))
