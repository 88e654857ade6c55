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
        origin: A wheel, an sdist, a checkout or an installed package to read instead of the cache and the index.
        offline: Use what the cache holds; never start a download.
        cache_dir: The cache; the user's own where it is None.

    Raises:
        SourceError: not available, not that release, or not as pinned.
    """
    if origin is None:
        download_to = None if offline else partial(download.download_wheel, pin)
        name, data = cache.fetch(pin, cache.find_location(cache_dir), download_to)
        return _open_archive(data, "wheel", name, pin.release)
    path = origin.expanduser()
    if path.is_dir():
        source = directory.read(path)
        if not pin.wheel_sha256 and _is_ahead(source.release, pin.release):
            source = replace(source, release=pin.release)
        _check_release(source, pin.release, str(origin))
        return source
    kind, data = _read_file(path)
    if pin.wheel_sha256:
        _check_pinned(path, kind, data, pin)
    return _open_archive(data, kind, str(path), pin.release)


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


def _check_pinned(path: Path, kind: SourceKind, data: bytes, pin: SourcePin) -> None:
    """Refuse a file that is not the pinned one."""
    wanted = pin.wheel_sha256 if kind == "wheel" else pin.sdist_sha256
    if wanted is None:
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
    source = replace(archive.build_source(members, kind, compute_digest(data), name), filename=Path(name).name)
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
