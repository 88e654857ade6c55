"""Load the manifests of the supported releases."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from packaging.version import InvalidVersion, Version

from extractor.values import readers, resources
from extractor.values.errors import InternalError, UsageError
from extractor.values.manifest import ChainError, Manifest, SourcePin, combine, parse_manifest, read_toml, rename_key
from extractor.values.nearest import find_nearest

_OLDER = "older.toml"


def list_supported() -> tuple[str, ...]:
    """Return the release numbers, oldest first."""
    return _list_in(resources.find_manifests())


def find_template_release() -> str:
    """Return the release that the templates are written for."""
    return _list_in(resources.find_own_manifests())[-1]


def list_key_steps() -> dict[str, Mapping[str, str]]:
    """Return the config keys that each release renames."""
    found: dict[str, Mapping[str, str]] = {}
    for folder in dict.fromkeys((resources.find_own_manifests(), resources.find_manifests())):
        for release in _list_in(folder):
            step = _read_stated(release, folder).get("renamed_keys", {})
            assert isinstance(step, Mapping)
            found[release] = step
    return found


def list_older() -> tuple[SourcePin, ...]:
    """Return the unsupported older releases whose copies are known."""
    stated = read_toml(readers.read_text(resources.find_own_manifests() / _OLDER), _OLDER)["releases"]
    assert isinstance(stated, list)
    return tuple(SourcePin(item["release"], item["wheel"], item["wheel_sha256"]) for item in stated)


def find_default() -> str:
    """Return a new project's default release: the newest supported one."""
    known = list_supported()
    if not known:
        raise InternalError("this vextract has no manifests", hint="reinstall vextract")
    return known[-1]


def find_before(release: str) -> str | None:
    """Return the newest supported release up to this one, or None."""
    try:
        known = [item for item in list_supported() if Version(item) <= Version(release)]
    except InvalidVersion:
        return None
    return known[-1] if known else None


def is_unknown(release: str) -> bool:
    """Return True for a newer, unsupported release, but not for 0.9 or v0.9.1."""
    before = find_before(release)
    return before is not None and Version(before) != Version(release)


def hint_nearest(release: str) -> str:
    """Write a hint that names the nearest supported releases."""
    known = list_supported()
    near = find_nearest(release, known)
    return f"{f'did you mean {near[0]}? ' if near else ''}supported: {', '.join(known) or 'none'}"


def load(release: str) -> Manifest:
    """Read the manifest of a release.

    Raises:
        UsageError: the release is not supported.
    """
    known = list_supported()
    if release not in known:
        raise UsageError(f"verl {release} is not supported by this vextract", hint=hint_nearest(release))
    folder = resources.find_manifests()
    return _load_once(release, tuple((item, readers.read_text(folder / f"verl-{item}.toml")) for item in known))


@lru_cache(maxsize=16)
def _load_once(release: str, texts: tuple[tuple[str, str], ...]) -> Manifest:
    """Load a manifest once, for as long as no manifest changes."""
    older = tuple(item for item, _ in texts if Version(item) < Version(release))
    manifest = parse_manifest(merge_predecessors(release), f"verl-{release}.toml")
    return replace(manifest, former_keys=_map_former_keys(older, manifest.renamed_keys))


def _map_former_keys(older: tuple[str, ...], last: Mapping[str, str]) -> dict[str, str]:
    """Map former config keys to today's."""
    found: dict[str, str] = {}
    for step in (*(_read_stated(release).get("renamed_keys", {}) for release in older), last):
        assert isinstance(step, Mapping)
        found = {old: rename_key(new, step) for old, new in found.items()} | dict(step)
    return dict(sorted(found.items()))


def merge_predecessors(release: str) -> dict[str, object]:
    """Return a release's manifest merged with its predecessors.

    Raises:
        UsageError: a manifest is not TOML, or does not fit the one that it follows.
    """
    name = f"verl-{release}.toml"
    stated = _read_stated(release)
    before = stated.get("follows")
    if before is None:
        return dict(stated)
    known = (resources.find_manifests() / f"verl-{before}.toml").is_file()
    if not known or Version(str(before)) >= Version(release):
        raise UsageError(f"{name}: key `follows`: {before!r} is no release before it", hint="name one that is")
    try:
        return combine(merge_predecessors(str(before)), stated)
    except ChainError as error:
        raise UsageError(f"{name}: {error.message}", hint=error.hint) from None


def _list_in(folder: Path) -> tuple[str, ...]:
    found = [path.stem.removeprefix("verl-") for path in folder.glob("verl-*.toml")]
    try:
        return tuple(sorted(found, key=Version))
    except InvalidVersion as error:
        raise InternalError(f"{folder} holds a file not named after a release: {error}", hint="rename it") from None


def _read_stated(release: str, folder: Path | None = None) -> Mapping[str, object]:
    path = (folder or resources.find_manifests()) / f"verl-{release}.toml"
    return _parse_once(readers.read_text(path), path.name)


@lru_cache(maxsize=64)
def _parse_once(text: str, file: str) -> Mapping[str, object]:
    """Parse a manifest once."""
    return MappingProxyType(read_toml(text, file))
