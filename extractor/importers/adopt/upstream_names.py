"""Normalize a fork's text for comparison with upstream's."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FIRST = (
    "trainer|utils|workers|protocol|models|single_controller|third_party|base_config|experimental|interactions|tools"
    "|model_merger|checkpoint_engine|version|py_functional"
)


def decode(data: bytes) -> str | None:
    """Decode UTF-8 text with normalized line ends; None if not text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def restore_upstream_names(text: str, prefixes: Sequence[str]) -> str:
    """Replace the copy's import name by `verl` in a text."""
    for name in map(re.escape, prefixes):
        text = re.sub(rf"^([ \t]*(?:from|import)[ \t]+){name}(?=[.\s]|$)", r"\1verl", text, flags=re.MULTILINE)
        # Chains after `import prefix.x`, and dotted paths in strings.
        text = re.sub(rf"(?<![\w.]){name}(?=\.(?:{_FIRST})\b)", "verl", text)
    return text
