"""What the checkout that a run is started in says of it: its release of verl, and the defaults of its own config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from extractor.importers.runs.files import Places
from extractor.values import limits, readers
from extractor.values.configtree import compose

_VERSION = "verl/version/version"
_LONGEST = 40
_CONFIG = "verl/trainer/config"


def version_of(places: Places) -> str | None:
    """Return the version that the checkout's verl says it is, `0.2.0.dev`; None where there is none beside the run."""
    file = places.find(_VERSION)
    if file is None:
        return None
    try:
        text = readers.read_text(file).strip()
        return str(Version(text)) if len(text) <= _LONGEST else None
    except (OSError, InvalidVersion):
        return None


def defaults_of(folder: Path | None, main: str, places: Places) -> Mapping[str, Any]:
    """Return the config that a run's program starts from in its own checkout, composed; empty where that is not here.

    Args:
        folder: The config directory of the program that is launched; None: not known.
        main: The name of the config.
        places: Where the run may have been started from.
    """
    verls = places.find(f"{_CONFIG}/{main}.yaml")
    for place in (folder, None if verls is None else verls.parent):
        found = composed(place, main) if place is not None else {}
        if found:
            return found
    return {}


def composed(folder: Path, main: str) -> Mapping[str, Any]:
    """Return a config of a checkout's, composed; empty where it is not there, or cannot be read.

    Args:
        folder: Its directory.
        main: Its name.
    """
    if not (folder / f"{main}.yaml").is_file():
        return {}
    try:
        files = {
            file.relative_to(folder).as_posix(): readers.read_text(file)
            for file in readers.files_below(folder)
            if file.suffix == ".yaml"
        }
        return compose(files, f"{main}.yaml").config if len(files) <= limits.MAX_CONFIG_PARTS else {}
    except (OSError, yaml.YAMLError):
        return {}
