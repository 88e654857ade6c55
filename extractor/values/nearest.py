"""Find the name that a mistyped one most likely meant."""

from collections.abc import Iterable


def find_nearest(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return known names like a mistyped one, the likeliest first."""
    from difflib import get_close_matches

    close = get_close_matches(name, sorted(known), count + 3)
    return sorted(close, key=lambda other: sorted(other) != sorted(name))[:count]
