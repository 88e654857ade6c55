"""Render the templates of templates/from_run."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, StrictUndefined

from extractor.values import resources


def render(file: str, /, **values: object) -> str:
    """Render a template, named without its ending, with the run's values."""
    folder = resources.find_templates() / "from_run"
    if (folder / file).is_file():
        return (folder / file).read_text(encoding="utf-8")
    return str(_make_environment().from_string((folder / f"{file}.jinja").read_text(encoding="utf-8")).render(values))


@cache
def _make_environment() -> Environment:
    return Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
