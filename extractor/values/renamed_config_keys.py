"""Translate config keys between releases."""

from collections.abc import Mapping

from packaging.version import Version

from extractor.values import releases
from extractor.values.manifest import invert, rename_key


class KeyRenames:
    """Translates config keys from one release to another."""

    def __init__(self, old: str, new: str) -> None:
        steps = releases.list_key_steps()
        between = [release for release in sorted(steps, key=Version) if _lies_between(release, old, new)]
        self._steps: list[Mapping[str, str]] = [steps[release] for release in between]
        if Version(old) > Version(new):
            self._steps = [invert(step) for step in reversed(self._steps)]

    def __call__(self, key: str) -> str | None:
        """Return the new name of a key, or None if unchanged."""
        name = key
        for step in self._steps:
            name = rename_key(name, step)
        return name if name != key else None


def _lies_between(release: str, old: str, new: str) -> bool:
    low, high = sorted((Version(old), Version(new)))
    return low < Version(release) <= high
