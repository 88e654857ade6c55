"""The files that a project gets besides where its run brings something along: templates/from_run."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, StrictUndefined

from extractor.values import resources

FOLDER = "from_run"


def render(file: str, /, **values: object) -> str:
    """Return the text of a file.

    Args:
        file: Its name, without the ending of a template.
        values: What stands in it for the run.
    """
    folder = resources.templates() / FOLDER
    plain = folder / file
    if plain.is_file():
        return plain.read_text(encoding="utf-8")
    text = (folder / f"{file}.jinja").read_text(encoding="utf-8")
    return str(_environment().from_string(text).render(values))


@cache
def _environment() -> Environment:
    return Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
