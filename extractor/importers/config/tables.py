"""Read the tables of names in templates/from_run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from extractor.values import readers, resources


@cache
def read_table(name: str) -> Mapping[str, Any]:
    """Return the table of a name, without its ending."""
    path = resources.find_templates() / "from_run" / f"{name}.toml"
    return readers.parse_toml(path.read_text(encoding="utf-8"))
