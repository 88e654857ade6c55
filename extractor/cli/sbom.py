"""`vextract sbom`: write a project's bill of materials."""

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from extractor.cli import output, unfinished
from extractor.cli.options import Output, Project

if TYPE_CHECKING:
    from extractor.project.lock import Lock


def command(path: Project = Path(), file: Output = None) -> None:
    """Write a project's bill of materials, as SPDX 2.3 in JSON.

    It lists verl and its wheel, every file with its origin, digests and changes, and the pinned requirements. Nothing
    in it comes from the clock: it is dated 1980-01-01, or as SOURCE_DATE_EPOCH says.
    """
    from extractor.project import location, lock
    from extractor.usecases.provenance import gather, sbom
    from extractor.usecases.provenance.sbom import EPOCH

    root = location.find(path)
    unfinished.refuse(root)
    locked = lock.read(root)
    created = _created(os.environ.get("SOURCE_DATE_EPOCH"))
    document = sbom(gather(root, locked), wheel=wheel_of(locked), created=EPOCH if created is None else created)
    print_or_write(document, file)


def print_or_write(document: object, file: Path | None) -> None:
    """Print JSON in ASCII, or write it to a file."""
    text = json.dumps(document, indent=2)
    if file is None:
        output.data(text)
    else:
        output.write_file(file, f"{text}\n")


def wheel_of(locked: "Lock") -> str | None:
    """Return the name of a project's wheel on the package index, if known."""
    from extractor.values import releases

    if locked.options.verl not in releases.supported():
        return None
    pin = releases.load(locked.options.verl).pin
    named = {pin.wheel_sha256: pin.wheel_filename, pin.sdist_sha256: pin.sdist_filename}
    return named.get(locked.source_sha256)


def _created(epoch: str | None) -> int | None:
    from extractor.values.errors import UsageError

    if not epoch:
        return None
    try:
        datetime.fromtimestamp(int(epoch), timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"SOURCE_DATE_EPOCH: {epoch!r} is no time", hint="give seconds since 1970, or `unset SOURCE_DATE_EPOCH`"
        ) from None
    return int(epoch)
