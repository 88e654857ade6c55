"""What a run's checkout says of its verl: the release, and the defaults of its own config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from extractor.importers.runs.places import RunFolders
from extractor.values import limits, readers
from extractor.values.configtree import compose

_VERSION, _LONGEST = "verl/version/version", 40
_CONFIG = "verl/trainer/config"


def version_of(places: RunFolders) -> str | None:
    """Return the version that the checkout's verl says it is, `0.2.0.dev`; None where there is none."""
    file = places.find(_VERSION)
    try:
        text = "" if file is None else readers.read_text(file).strip()
        return str(Version(text)) if len(text) <= _LONGEST else None
    except (OSError, InvalidVersion):
        return None


def defaults_of(folder: Path | None, main: str, places: RunFolders) -> Mapping[str, Any]:
    """Return the config of a name, composed: the launched program's in its folder, or verl's; empty: it is not here."""
    verls = places.find(f"{_CONFIG}/{main}.yaml")
    folders = [*([] if folder is None else [folder]), *([] if verls is None else [verls.parent])]
    return next(filter(None, (composed(place, main) for place in folders)), {})


def composed(folder: Path, main: str) -> Mapping[str, Any]:
    """Return a config of a checkout's folder, composed; empty where it is not there, or cannot be read."""
    if not (folder / f"{main}.yaml").is_file():
        return {}
    try:
        found = [file for file in readers.files_below(folder) if file.suffix == ".yaml"]
        files = {file.relative_to(folder).as_posix(): readers.read_text(file) for file in found}
        return compose(files, f"{main}.yaml").config if len(files) <= limits.MAX_CONFIG_PARTS else {}
    except (OSError, yaml.YAMLError):
        return {}
