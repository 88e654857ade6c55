"""The source of verl as a verified, read-only file tree.

Nothing of verl is executed here, and nothing is written outside the cache.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from extractor.pipeline.source import archive, cache, directory, download
from extractor.pipeline.source.archive import compute_digest
from extractor.pipeline.source.source import Source, SourceKind
from extractor.values import readers
from extractor.values.errors import SourceError

if TYPE_CHECKING:
    from extractor.values.manifest import SourcePin

__all__ = ["Source", "SourceKind", "detect_release", "open_source"]


def open_source(
    pin: SourcePin, origin: Path | None = None, *, offline: bool = False, cache_dir: Path | None = None
) -> Source:
    """Open the source of a release.

    Args:
        pin: The release, its files on the package index and their digests; without these, whatever the index has.
        origin: A wheel, a checkout or an installed package to read instead of the cache and the index.
        offline: Use what the cache holds; never start a download.
        cache_dir: The cache; the user's own where it is None.

    Raises:
        SourceError: not available, not that release, or not as pinned.
    """
    if origin is None:
        download_to = None if offline else partial(download.download_wheel, pin)
        name, data = cache.fetch(pin, cache.find_location(cache_dir), download_to)
        return _open_wheel(data, name, pin.release)
    path = origin.expanduser()
    if path.is_dir():
        source = directory.read(path)
        if not pin.wheel_sha256 and _is_ahead(source.release, pin.release):
            source = replace(source, release=pin.release)
        _check_release(source, pin.release, str(origin))
        return source
    _check_wheel(path)
    try:
        data = readers.read_bytes(path)
    except OSError as error:
        hint = "check the path given to --from, and its permissions"
        raise SourceError(f"{path}: {error.strerror}", hint=hint) from None
    if pin.wheel_sha256:
        _check_pinned(path, data, pin)
    return _open_wheel(data, str(path), pin.release)


def detect_release(origin: Path) -> str:
    """Return the release of a wheel or directory, without unpacking.

    Raises:
        SourceError: it does not say.
    """
    path = origin.expanduser()
    if path.is_dir():
        return directory.read(path).release
    _check_wheel(path)
    release = archive.release_in_name(path.name)
    if release is None:
        raise SourceError(
            f"{origin}: the file's name does not say which release of verl it is",
            hint="name the release with --verl X.Y.Z",
        )
    return release


def _check_pinned(path: Path, data: bytes, pin: SourcePin) -> None:
    """Refuse a wheel that is not the pinned one."""
    found = compute_digest(data)
    if found != pin.wheel_sha256:
        said = archive.release_in_name(path.name)
        if said is not None and said != pin.release:
            raise SourceError(f"{path}: verl {said}, not {pin.release}", hint=f"pass --verl {said}, or another file")
        raise SourceError(
            f"{path}: not the wheel of verl {pin.release} as released: sha256 {found}, pinned {pin.wheel_sha256}",
            hint="download it again; to vendor a modified verl, unpack it and pass the directory",
        )


def _open_wheel(data: bytes, name: str, release: str) -> Source:
    source = archive.build_source(archive.read_zip(data, name), "wheel", compute_digest(data), name)
    _check_release(source, release, name)
    return replace(source, filename=Path(name).name)


def _check_release(source: Source, release: str, name: str) -> None:
    if source.release != release:
        raise SourceError(
            f"{name}: verl {source.release}, not {release}", hint=f"pass --verl {source.release}, or another source"
        )


def _is_ahead(release: str, wanted: str) -> bool:
    """Tell whether a checkout is a pre-release of the wanted release."""
    try:
        return Version(release).is_prerelease and Version(release).base_version == Version(wanted).base_version
    except InvalidVersion:
        return False


def _check_wheel(path: Path) -> None:
    """Refuse what is no wheel."""
    if not path.exists():
        raise SourceError(f"{path}: no such file or directory", hint="check the path given to --from")
    if not path.is_file():
        raise SourceError(f"{path}: neither a file nor a directory", hint="check the path given to --from")
    if path.name.endswith((".tar.gz", ".tgz")):
        raise SourceError(f"{path}: an sdist is not read", hint=f"unpack it, and pass the directory: tar xzf {path}")
    if path.suffix != ".whl":
        raise SourceError(f"{path}: not a wheel", hint="pass a .whl, a checkout of verl or an installed verl")
