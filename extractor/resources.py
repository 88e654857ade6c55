"""Where templates and manifests lie: inside the installed package, or at the top of a checkout."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from extractor.errors import InternalError

Folder: TypeAlias = Path


def templates() -> Folder:
    """The directory of the Jinja tree."""
    return _directory("templates")


def manifests() -> Folder:
    """The directory of the release manifests."""
    return _directory("manifests")


def _directory(name: str) -> Folder:
    package = Path(str(files("extractor")))
    # A wheel carries both inside the package; an editable install or a checkout has them beside it.
    for candidate in (package / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise InternalError(
        f"the directory {name}/ of vextract is missing (looked in {package} and beside it)",
        hint="reinstall vextract: pip install --force-reinstall vextract",
    )
