"""Read and render what lies in templates/from_run and templates/export."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from extractor.values import readers, resources


@cache
def read_table(name: str) -> Mapping[str, Any]:
    """Return the table of a name, without its ending."""
    return readers.parse_toml((_find_folder() / f"{name}.toml").read_text(encoding="utf-8"))


def render(file: str, folder: str = "from_run", /, **values: object) -> str:
    """Render a template, named without its ending, with the given values."""
    path = _find_folder(folder) / file
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = _make_environment(folder == "from_run").from_string(Path(f"{path}.jinja").read_text(encoding="utf-8"))
    return str(template.render(values))


def write_cell(value: Any) -> str:
    """Return a value as JSON for a cell of a Markdown table."""
    return json.dumps(value).replace("|", "\\|")


def _find_folder(name: str = "from_run") -> Path:
    return resources.find_templates() / name


@cache
def _make_environment(trim_blocks: bool) -> SandboxedEnvironment:
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=trim_blocks)
    environment.filters["json"] = write_cell
    return environment
