"""Split source text into lines where Python's tokenizer does."""

import re

_NEWLINE = re.compile(r"\r\n|\r|\n")


def unify_newlines(text: str) -> tuple[str, str]:
    """Convert line ends to the most frequent; return it too.

    A text that is consistent already comes back unchanged.
    """
    found = _NEWLINE.findall(text)
    kinds = sorted(set(found), key=lambda kind: (-found.count(kind), kind))
    if not kinds:
        return text, "\n"
    if len(kinds) > 1:
        text = _NEWLINE.sub(kinds[0], text)
    return text, kinds[0]


def join_names(names: list[str], width: int) -> str:
    """Join names up to a width: "a, b and 3 more"."""
    shown = ""
    for index, name in enumerate(names):
        longer = f"{shown}, {name}" if shown else name
        if index > 2 and len(longer) > width:
            return f"{shown} and {len(names) - index} more"
        shown = longer
    return shown
