"""Cache verl's released files on disk, verifying digests on every use."""

import os
from collections.abc import Callable
from pathlib import Path

from extractor.pipeline.source.archive import compute_digest
from extractor.project.scratch_dir import make_workplace
from extractor.values import readers
from extractor.values.errors import SourceError

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


def fetch(
    filename: str, wanted: str, directory: Path, download: Callable[[Path], Path] | None, *, release: str
) -> bytes:
    """Return a released file from the cache, else by `download`.

    Args:
        filename: Its name on the index.
        wanted: Its hex sha256; nothing else is ever returned.
        directory: The cache.
        download: Fetches the file into a directory and returns its path; None forbids downloading.
        release: For messages.

    Raises:
        SourceError: not available, not as pinned, or the cache cannot be written.
    """
    # The archive itself is kept, never its unpacked files: to verify it is to read and hash one megabyte.
    entry = directory / wanted[:16] / filename
    cached = _read(entry)
    if cached is not None and compute_digest(cached) == wanted:
        return cached
    return _download_into(release, directory, "", download, None if cached is None else entry, wanted)[1]


def fetch_unpinned(release: str, directory: Path, download: Callable[[Path], Path] | None) -> tuple[str, bytes]:
    """Return name and bytes of a wheel without a known digest.

    Args:
        release: The release.
        directory: The cache.
        download: Fetches the wheel into a directory and returns its path; None forbids downloading.

    Raises:
        SourceError: not available, or the cache cannot be written.
    """
    folder = f"unpinned/{release}"
    known = sorted((directory / folder).glob("*/*.whl"))
    for entry in known:
        data = _read(entry)
        if data is not None and compute_digest(data).startswith(entry.parent.name):
            return entry.name, data
    return _download_into(release, directory, folder, download, known[0] if known else None)


def _download_into(
    release: str,
    directory: Path,
    folder: str,
    download: Callable[[Path], Path] | None,
    damaged: Path | None,
    wanted: str | None = None,
) -> tuple[str, bytes]:
    """Download a file into the cache; return its name and bytes.

    Args:
        release, directory, download: As for `fetch`.
        folder: The part of the cache; the file stands in a folder of its digest there.
        damaged: What the cache has in its place.
        wanted: Its digest, where it is known.
    """
    state = "is not in the cache" if damaged is None else f"is damaged in the cache ({damaged})"
    if download is None:
        raise SourceError(
            f"verl {release} {state}, and --offline forbids a download",
            hint="run once without --offline, or pass the source with --from WHEEL|SDIST|DIRECTORY",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with make_workplace(directory / "download") as scratch:
            try:
                file = download(scratch)
            except SourceError as error:
                if damaged is not None:
                    raise SourceError(f"verl {release} {state}; {error.message}", hint=error.hint) from None
                raise
            data = file.read_bytes()
            found = compute_digest(data)
            if wanted is not None and found != wanted:
                raise SourceError(
                    f"{file.name} from the package index is not verl {release} as released:"
                    f" sha256 {found}, pinned {wanted}",
                    hint="check which index pip uses (`pip config list`); a mirror may serve another build",
                )
            file.chmod(0o444)
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
            entry = directory / folder / found[:16] / file.name
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
