"""Writing an export: into a directory beside its place, then one rename."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from extractor.values.errors import UsageError


def write(target: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new directory, all or none.

    Args:
        target: Does not exist, or is an empty directory.
        files: By path.

    Raises:
        UsageError: the place is taken, or cannot be written.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target}: exists already", hint="pass another directory with -o, or remove it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            scratch.chmod(0o755)
            for path, data in files.items():
                place = scratch / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
                if path.endswith(".sh"):
                    place.chmod(0o755)
            scratch.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise UsageError(
            f"{target}: cannot be written: {error.strerror or error}", hint="choose another place with -o"
        ) from None
