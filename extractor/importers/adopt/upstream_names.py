"""Text of a fork, made comparable with upstream's."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FIRST = (
    "trainer|utils|workers|protocol|models|single_controller|third_party|base_config|experimental|interactions|tools"
    "|model_merger|checkpoint_engine|version|py_functional"
)


def decode(data: bytes) -> str | None:
    """Return the text with line feeds alone and without a byte order mark; None where it is no text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def restore_upstream_names(text: str, prefixes: Sequence[str]) -> str:
    """Return the text with the copy's own import name turned back into `verl`."""
    for name in map(re.escape, prefixes):
        text = re.sub(rf"^([ \t]*(?:from|import)[ \t]+){name}(?=[.\s]|$)", r"\1verl", text, flags=re.MULTILINE)
        # Chains after `import prefix.x`, and dotted paths in strings.
        text = re.sub(rf"(?<![\w.]){name}(?=\.(?:{_FIRST})\b)", "verl", text)
    return text
