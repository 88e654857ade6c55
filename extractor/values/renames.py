"""Translate config keys between releases."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import Version

from extractor.values import releases
from extractor.values.manifest import inverse, renamed


class Renames:
    """Translates config keys from one release to another."""

    def __init__(self, old: str, new: str) -> None:
        steps = releases.key_steps()
        between = [release for release in sorted(steps, key=Version) if _between(release, old, new)]
        self._steps: list[Mapping[str, str]] = [steps[release] for release in between]
        if Version(old) > Version(new):
            self._steps = [inverse(step) for step in reversed(self._steps)]

    def __call__(self, key: str) -> str | None:
        """Return the new name of a key, or None if unchanged."""
        name = key
        for step in self._steps:
            name = renamed(name, step)
        return name if name != key else None


def _between(release: str, old: str, new: str) -> bool:
    low, high = sorted((Version(old), Version(new)))
    return low < Version(release) <= high
