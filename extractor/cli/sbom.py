"""`vextract sbom`: write a project's bill of materials."""

import json
import os
from datetime import datetime, timezone
from pathlib import Path

from extractor.cli import output, unfinished
from extractor.cli.options import Output, Project


def command(path: Project = Path(), file: Output = None) -> None:
    """Write a project's bill of materials, as SPDX 2.3 in JSON.

    It lists verl and its wheel, every file with its origin, digests and changes, and the pinned requirements. Nothing
    in it comes from the clock: it is dated 1980-01-01, or as SOURCE_DATE_EPOCH says.
    """
    from extractor.usecases.sbom import EPOCH, write_sbom
    from extractor.values.errors import UsageError

    root, locked = unfinished.open_project(path)
    when = os.environ.get("SOURCE_DATE_EPOCH") or EPOCH
    try:
        datetime.fromtimestamp(int(when), timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"SOURCE_DATE_EPOCH: {when!r} is no time", hint="give seconds since 1970, or `unset SOURCE_DATE_EPOCH`"
        ) from None
    document = write_sbom(root, locked, int(when))
    text = json.dumps(document, indent=2)
    if file is None:
        output.data(text)
    else:
        output.write_file(file, f"{text}\n")
