"""The releases of verl that this vextract knows: one manifest each."""

from __future__ import annotations

from difflib import get_close_matches

from packaging.version import InvalidVersion, Version

from extractor import resources
from extractor.errors import InternalError, UsageError
from extractor.manifest import Manifest, parse_manifest


def supported() -> tuple[str, ...]:
    """Release numbers, oldest first."""
    found = [path.stem.removeprefix("verl-") for path in resources.manifests().glob("verl-*.toml")]
    try:
        return tuple(sorted(found, key=Version))
    except InvalidVersion as error:
        raise InternalError(f"manifests/ holds a file not named after a release: {error}", hint="rename it") from None


def default() -> str:
    """The release that a new project gets: the newest supported one."""
    known = supported()
    if not known:
        raise InternalError("this vextract has no manifests", hint="reinstall vextract")
    return known[-1]


def load(release: str) -> Manifest:
    """Read the manifest of a release.

    Raises:
        UsageError: the release is not supported.
    """
    known = supported()
    if release not in known:
        near = get_close_matches(release, known, 1)
        listing = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"verl {release} is not supported by this vextract",
            hint=f"{listing}supported: {', '.join(known) or 'none'} (`vextract versions`)",
        )
    path = resources.manifests() / f"verl-{release}.toml"
    return parse_manifest(path.read_text(encoding="utf-8"), path.name)
