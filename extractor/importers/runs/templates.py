"""The files that a project gets where its run brings something along: templates/from_run."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, StrictUndefined

from extractor.values import resources


def render(file: str, /, **values: object) -> str:
    """Return the text of a file, by its name without the ending of a template, with values of the run in it."""
    folder = resources.find_templates() / "from_run"
    if (folder / file).is_file():
        return (folder / file).read_text(encoding="utf-8")
    return str(_make_environment().from_string((folder / f"{file}.jinja").read_text(encoding="utf-8")).render(values))


@cache
def _make_environment() -> Environment:
    return Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
