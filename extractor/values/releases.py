"""Load the manifests of the supported releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from packaging.version import InvalidVersion, Version

from extractor.values import readers, resources
from extractor.values.errors import InternalError, UsageError
from extractor.values.manifest import ChainError, Manifest, SourcePin, combine, parse_manifest, read_toml, renamed
from extractor.values.nearest import nearest

_OLDER = "older.toml"


def supported() -> tuple[str, ...]:
    """Return the release numbers, oldest first."""
    return _in(resources.manifests())


def of_templates() -> str:
    """Return the release that the templates are written for."""
    return _in(resources.own_manifests())[-1]


def key_steps() -> dict[str, Mapping[str, str]]:
    """Return the config keys that each release renames."""
    found: dict[str, Mapping[str, str]] = {}
    for folder in dict.fromkeys((resources.own_manifests(), resources.manifests())):
        for release in _in(folder):
            step = _stated(release, folder).get("renamed_keys", {})
            assert isinstance(step, Mapping)
            found[release] = step
    return found


def older() -> tuple[SourcePin, ...]:
    """Return the unsupported older releases whose copies are known."""
    stated = read_toml(readers.read_text(resources.own_manifests() / _OLDER), _OLDER)["releases"]
    assert isinstance(stated, list)
    return tuple(SourcePin(item["release"], item["wheel"], item["wheel_sha256"]) for item in stated)


def default() -> str:
    """Return the release that a new project gets: the newest supported one."""
    known = supported()
    if not known:
        raise InternalError("this vextract has no manifests", hint="reinstall vextract")
    return known[-1]


def before(release: str) -> str | None:
    """Return the newest supported release up to this one, or None."""
    try:
        known = [item for item in supported() if Version(item) <= Version(release)]
    except InvalidVersion:
        return None
    return known[-1] if known else None


def is_unknown(release: str) -> bool:
    """Return True for a newer, unsupported release."""
    return release not in supported() and before(release) is not None


def instead_of(release: str) -> str:
    """Write a hint that names the nearest supported releases."""
    known = supported()
    near = nearest(release, known)
    return f"{f'did you mean {near[0]}? ' if near else ''}supported: {', '.join(known) or 'none'}"


def load(release: str) -> Manifest:
    """Read the manifest of a release.

    Raises:
        UsageError: the release is not supported.
    """
    known = supported()
    if release not in known:
        raise UsageError(f"verl {release} is not supported by this vextract", hint=instead_of(release))
    manifest = parse_manifest(stated_in_full(release), f"verl-{release}.toml")
    return replace(manifest, former_keys=_former_keys(known[: known.index(release)], manifest.renamed_keys))


def _former_keys(older: tuple[str, ...], last: Mapping[str, str]) -> dict[str, str]:
    """Map former config keys to today's."""
    found: dict[str, str] = {}
    for step in (*(_stated(release).get("renamed_keys", {}) for release in older), last):
        assert isinstance(step, Mapping)
        found = {old: renamed(new, step) for old, new in found.items()} | dict(step)
    return dict(sorted(found.items()))


def stated_in_full(release: str) -> dict[str, object]:
    """Return a release's manifest merged with its predecessors.

    Raises:
        UsageError: a manifest is not TOML, or does not fit the one that it follows.
    """
    name = f"verl-{release}.toml"
    stated = _stated(release)
    before = stated.get("follows")
    if before is None:
        return dict(stated)
    known = (resources.manifests() / f"verl-{before}.toml").is_file()
    if not known or Version(str(before)) >= Version(release):
        raise UsageError(f"{name}: key `follows`: {before!r} is no release before it", hint="name one that is")
    try:
        return combine(stated_in_full(str(before)), stated)
    except ChainError as error:
        raise UsageError(f"{name}: {error.message}", hint=error.hint) from None


def _in(folder: Path) -> tuple[str, ...]:
    found = [path.stem.removeprefix("verl-") for path in folder.glob("verl-*.toml")]
    try:
        return tuple(sorted(found, key=Version))
    except InvalidVersion as error:
        raise InternalError(f"{folder} holds a file not named after a release: {error}", hint="rename it") from None


def _stated(release: str, folder: Path | None = None) -> Mapping[str, object]:
    path = (folder or resources.manifests()) / f"verl-{release}.toml"
    return _parsed(readers.read_text(path), path.name)


@lru_cache(maxsize=64)
def _parsed(text: str, file: str) -> Mapping[str, object]:
    """Parse a manifest once."""
    return MappingProxyType(read_toml(text, file))
