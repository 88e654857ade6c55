"""Find the name that a mistyped one most likely meant."""

from collections.abc import Iterable


def find_nearest(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return known names like a mistyped one, in any case, the likeliest first."""
    from difflib import get_close_matches

    folded = {item.lower(): item for item in sorted(known, reverse=True)}
    close = get_close_matches(name.lower(), sorted(folded), count + 3)
    close.sort(key=lambda other: sorted(other) != sorted(name.lower()))
    return [folded[item] for item in close[:count]]
