"""Apply and invert one release's renaming of config keys."""

from collections.abc import Mapping


def rename_key(key: str, step: Mapping[str, str]) -> str:
    """Return a key's name after a step; the innermost rule counts."""
    parts = key.split(".")
    for end in range(len(parts), 0, -1):
        head = ".".join(parts[:end])
        if head in step:
            return ".".join([step[head], *parts[end:]])
    return key


def invert(step: Mapping[str, str]) -> dict[str, str]:
    """Invert a step; a merged key goes back to the first."""
    back: dict[str, str] = {}
    for old, new in step.items():
        back.setdefault(new, old)
    return back
