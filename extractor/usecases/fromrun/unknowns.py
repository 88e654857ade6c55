"""Text of which a part may be unknown: what a script would only know when it runs."""

from __future__ import annotations

import re

_MARK = re.compile("\ue000([^\ue001]*)\ue001")


def number_of(text: str) -> int | None:
    """Return a whole number that is written in digits; None for anything else, and for one of more than 64 bits."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def unknown(name: str) -> str:
    """Return a stand-in for a text that cannot be known, named after where it would come from."""
    return f"\ue000{name}\ue001"


def unknowns(text: str) -> tuple[str, ...]:
    """Return the names of what is unknown in a text."""
    return tuple(dict.fromkeys(_MARK.findall(text)))


def readable(text: str) -> str:
    """Return the text as it may be shown."""
    return _MARK.sub(lambda found: found[1] if found[1].startswith("$") else f"${found[1]}", text)
