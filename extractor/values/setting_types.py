"""Read what a project's shipped.json says of its settings."""

import json
from typing import Any

PATH = "shipped.json"


def read_types_and_words(text: str) -> tuple[dict[str, str], dict[str, tuple[Any, ...]]]:
    """Return types of optional settings, and words of enumerations.

    A type of several is left out.

    Args:
        text: Of the file; empty where there is none.
    """
    schema = json.loads(text or "{}").get("schema", {})
    kinds = {key: known["null_or"][0] for key, known in schema.items() if len(known.get("null_or", ())) == 1}
    words = {key: tuple(known["values"]) for key, known in schema.items() if "values" in known}
    return kinds, words
