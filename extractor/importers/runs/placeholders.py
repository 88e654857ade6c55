"""Mark the unknown parts of texts with placeholders."""

import re
from collections.abc import Callable
from typing import Any

# What `eval` reads a second time may stand in two pairs of them.
_MARK = re.compile("\ue000+([^\ue000\ue001]*)\ue001+")


def number_of(text: str) -> int | None:
    """Return a whole number of at most 18 digits, or None."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def make_unknown(name: str) -> str:
    """Return a placeholder for an unknown text, named after its source."""
    return f"\ue000{name}\ue001"


def find_unknowns(value: Any) -> tuple[str, ...]:
    """Return the names of unknown parts in a setting's texts."""
    if isinstance(value, str):
        return tuple(dict.fromkeys(_MARK.findall(value)))
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return tuple(dict.fromkeys(name for part in parts for name in find_unknowns(part)))


def make_readable(text: str) -> str:
    """Return a text with `$NAME` for its unknown parts."""
    return _MARK.sub(lambda found: found[1] if found[1].startswith("$") else f"${found[1]}", text)


def shown(value: Any) -> Any:
    """Return a setting with `$NAME` in place of unknown parts."""
    return _change_texts(value, make_readable)


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a setting with its texts and keys changed."""
    if isinstance(value, list):
        return [_change_texts(item, change) for item in value]
    if isinstance(value, dict):
        return {_change_texts(key, change): _change_texts(item, change) for key, item in value.items()}
    return change(value) if isinstance(value, str) else value


def replace_unknowns(text: str) -> tuple[str, Callable[[Any], Any]]:
    """Replace unknown parts by plain words, so that parsers accept them.

    Returns:
        The text, and what puts the unknown parts back into whatever a parser makes of it.
    """
    marks = list(dict.fromkeys(found[0] for found in _MARK.finditer(text)))
    words = {f"vextract_unknown_{number}_": mark for number, mark in enumerate(marks)}
    for word, mark in words.items():
        text = text.replace(mark, word)

    def back(text: str) -> str:
        for word, mark in words.items():
            text = text.replace(word, mark)
        return text

    return text, lambda value: _change_texts(value, back)
