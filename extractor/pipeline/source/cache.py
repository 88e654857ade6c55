"""Cache verl's released files on disk, verifying digests on every use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from extractor.pipeline.source.archive import compute_digest
from extractor.project.scratch_dir import make_scratch_dir
from extractor.values import readers
from extractor.values.errors import SourceError

if TYPE_CHECKING:
    from extractor.values.manifest import SourcePin

ENVIRONMENT = "VEXTRACT_CACHE_DIR"


def find_location(given: Path | None = None) -> Path:
    """Return the cache directory: given, VEXTRACT_CACHE_DIR, or the user's own."""
    if given is not None:
        return given
    named = os.environ.get(ENVIRONMENT)
    if named:
        return Path(named).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("vextract", appauthor=False)


def fetch(pin: SourcePin, directory: Path, download: Callable[[Path], Path] | None) -> tuple[str, bytes]:
    """Return name and bytes of a release's wheel, from the cache or by `download`.

    Args:
        pin: Its name on the index, and its sha256: nothing else is ever returned. Without these, any wheel.
        directory: The cache.
        download: Fetches the wheel into a directory and returns its path; None forbids downloading.

    Raises:
        SourceError: not available, not as pinned, or the cache cannot be written.
    """
    # The archive itself is kept, never its unpacked files: to verify it is to read and hash one megabyte.
    folder = directory if pin.wheel_sha256 else directory / "unpinned" / pin.release
    named = f"{pin.wheel_sha256[:16]}/{pin.wheel_filename}" if pin.wheel_sha256 else "*/*.whl"
    damaged = None
    for entry in sorted(folder.glob(named)):
        data = _read(entry)
        digest = compute_digest(data or b"")
        if data is not None and digest == (pin.wheel_sha256 or digest) and digest.startswith(entry.parent.name):
            return entry.name, data
        damaged = damaged or entry
    return _download_into(folder, pin, directory, download, damaged)


def _download_into(
    folder: Path, pin: SourcePin, directory: Path, download: Callable[[Path], Path] | None, damaged: Path | None
) -> tuple[str, bytes]:
    """Download a wheel into the cache; return its name and bytes.

    Args:
        folder: The part of the cache; the file stands in a folder of its digest there.
        pin, directory, download: As for `fetch`.
        damaged: What the cache has in its place.
    """
    release = pin.release
    state = "is not in the cache" if damaged is None else f"is damaged in the cache ({damaged})"
    if download is None:
        raise SourceError(
            f"verl {release} {state}, and --offline forbids a download",
            hint="run once without --offline, or pass the source with --from WHEEL|DIRECTORY",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with make_scratch_dir(directory / "download") as scratch:
            try:
                file = download(scratch)
            except SourceError as error:
                if damaged is not None:
                    raise SourceError(f"verl {release} {state}; {error.message}", hint=error.hint) from None
                raise
            data = file.read_bytes()
            found = compute_digest(data)
            if pin.wheel_sha256 and found != pin.wheel_sha256:
                raise SourceError(
                    f"{file.name} from the package index is not verl {release} as released:"
                    f" sha256 {found}, pinned {pin.wheel_sha256}",
                    hint="check which index pip uses (`pip config list`); a mirror may serve another build",
                )
            file.chmod(0o444)
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
            entry = folder / found[:16] / file.name
            entry.parent.mkdir(parents=True, exist_ok=True)
            # Whoever comes second replaces the file by an equal one.
            file.replace(entry)
            return file.name, data
    except OSError as error:
        raise SourceError(
            f"the cache {directory} cannot be written: {error.strerror or error}",
            hint=f"free some space, or name another directory: {ENVIRONMENT}=DIR",
        ) from None


def _read(entry: Path) -> bytes | None:
    try:
        return readers.read_bytes(entry)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SourceError(
            f"the cache entry {entry} cannot be read: {error.strerror or error}",
            hint=f"delete it, or name another directory: {ENVIRONMENT}=DIR",
        ) from None
