"""Find templates and manifests, installed or in a checkout."""

import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from extractor.values.errors import InternalError, UsageError
from extractor.values.shell import write_pip_command

Folder: TypeAlias = Path

MANIFESTS = "VEXTRACT_MANIFESTS"


def find_templates() -> Folder:
    """Return the directory of the Jinja tree."""
    return _find_directory("templates")


def find_manifests() -> Folder:
    """Return the directory of manifests, or VEXTRACT_MANIFESTS.

    Raises:
        UsageError: it names no directory.
    """
    named = os.environ.get(MANIFESTS)
    if not named:
        return find_own_manifests()
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise UsageError(f"{MANIFESTS}: {named}: no such directory", hint=f"correct it, or `unset {MANIFESTS}`")
    return folder


def find_own_manifests() -> Folder:
    """Return the directory of the manifests that belong to the templates."""
    return _find_directory("manifests")


def find_locks() -> Folder:
    """Return the directory of what scripts/locks.py resolved for each engine."""
    return find_own_manifests() / "locks"


@cache
def _find_directory(name: str) -> Folder:
    package = Path(str(files("extractor")))
    # A wheel carries both inside the package; an editable install or a checkout has them beside it.
    for candidate in (package / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise InternalError(
        f"the directory {name}/ of vextract is missing (looked in {package} and beside it)",
        hint=f"reinstall vextract: {write_pip_command('--force-reinstall', 'vextract')}",
    )
