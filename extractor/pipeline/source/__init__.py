"""The source of verl as a verified, read-only file tree.

Nothing of verl is executed here, and nothing is written outside the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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

__all__ = ["Source", "SourceKind", "Unpinned", "open_source", "open_unpinned", "detect_release"]


def open_source(
    pin: SourcePin, origin: Path | None = None, *, offline: bool = False, cache_dir: Path | None = None
) -> Source:
    """Open the source of a release.

    Args:
        pin: The release, its files on the package index and their digests.
        origin: A wheel, an sdist, a checkout or an installed package to read instead of the cache and the index.
        offline: Use what the cache holds; never start a download.
        cache_dir: The cache; the user's own where it is None.

    Raises:
        SourceError: not available, not that release, or not as pinned.
    """
    if origin is None:
        data = cache.fetch(
            pin.wheel_filename,
            pin.wheel_sha256,
            cache.find_location(cache_dir),
            None if offline else lambda into: download.download_wheel(pin, into),
            release=pin.release,
        )
        return _open_archive(data, "wheel", pin.wheel_filename, pin.release)
    path = origin.expanduser()
    if path.is_dir():
        source = directory.read(path)
        _check_release(source, pin.release, str(origin))
        return source
    return _open_file(path, pin)


@dataclass(frozen=True)
class Unpinned:
    """A source that nothing is known of in advance.

    Attributes:
        source: What it holds.
        filename: The name of the wheel or sdist; None for a directory.
    """

    source: Source
    filename: str | None


def open_unpinned(
    release: str, origin: Path | None = None, *, offline: bool = False, cache_dir: Path | None = None
) -> Unpinned:
    """Open a release that has no manifest and no known digest.

    Args:
        release: The release.
        origin, offline, cache_dir: As for `open_source`.

    Raises:
        SourceError: not available, or not that release.
    """
    if origin is None:
        download_to = None if offline else lambda into: download.download_any_wheel(release, into)
        name, data = cache.fetch_unpinned(release, cache.find_location(cache_dir), download_to)
        return Unpinned(_open_archive(data, "wheel", name, release), name)
    path = origin.expanduser()
    if path.is_dir():
        source = directory.read(path)
        if _is_ahead(source.release, release):
            source = replace(source, release=release)
        _check_release(source, release, str(origin))
        return Unpinned(source, None)
    kind, data = _read_file(path)
    return Unpinned(_open_archive(data, kind, str(path), release), path.name)


def detect_release(origin: Path) -> str:
    """Return the release of a wheel, sdist or directory, without unpacking.

    Raises:
        SourceError: it does not say.
    """
    path = origin.expanduser()
    if path.is_dir():
        return directory.read(path).release
    _check_exists(path)
    release = archive.release_in_name(path.name)
    if release is None:
        raise SourceError(
            f"{origin}: the file's name does not say which release of verl it is",
            hint="name the release with --verl X.Y.Z",
        )
    return release


def _open_file(path: Path, pin: SourcePin) -> Source:
    kind, data = _read_file(path)
    filename, wanted = (
        (pin.wheel_filename, pin.wheel_sha256) if kind == "wheel" else (pin.sdist_filename, pin.sdist_sha256)
    )
    if filename is None or wanted is None:
        raise SourceError(
            f"{path}: no {kind} of verl {pin.release} is pinned, so it cannot be verified",
            hint="pass the wheel, or unpack it and pass the directory",
        )
    found = compute_digest(data)
    if found != wanted:
        said = archive.release_in_name(path.name)
        if said is not None and said != pin.release:
            raise SourceError(f"{path}: verl {said}, not {pin.release}", hint=f"pass --verl {said}, or another file")
        raise SourceError(
            f"{path}: not the {kind} of verl {pin.release} as released: sha256 {found}, pinned {wanted}",
            hint="download it again; to vendor a modified verl, unpack it and pass the directory",
        )
    return _open_archive(data, kind, str(path), pin.release)


def _read_file(path: Path) -> tuple[SourceKind, bytes]:
    """Return what a file is by its name, and its bytes."""
    _check_exists(path)
    kind: SourceKind = "wheel" if path.suffix == ".whl" else "sdist"
    if kind == "sdist" and not path.name.endswith((".tar.gz", ".tgz")):
        raise SourceError(
            f"{path}: neither a wheel nor an sdist",
            hint="pass a .whl, a .tar.gz, a checkout of verl or an installed verl",
        )
    try:
        return kind, readers.read_bytes(path)
    except OSError as error:
        raise SourceError(
            f"{path}: {error.strerror}", hint="check the path given to --from, and its permissions"
        ) from None


def _open_archive(data: bytes, kind: SourceKind, name: str, release: str) -> Source:
    members = archive.read_zip(data, name) if kind == "wheel" else archive.read_tar(data, name)
    source = archive.build_source(members, kind, compute_digest(data), name)
    _check_release(source, release, name)
    return source


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


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise SourceError(f"{path}: no such file or directory", hint="check the path given to --from")
    if not path.is_file():
        raise SourceError(f"{path}: neither a file nor a directory", hint="check the path given to --from")
