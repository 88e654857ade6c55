"""`vextract sbom`: write a project's bill of materials."""

from pathlib import Path

from extractor.cli import output, unfinished
from extractor.cli.options import Output, Project


def command(path: Project = Path(), file: Output = None) -> None:
    """Write a project's bill of materials, as SPDX 2.3 in JSON.

    It lists verl and its wheel, every file with its origin, digests and changes, and the pinned requirements. Nothing
    in it comes from the clock: it is dated 1980-01-01.
    """
    import json

    from extractor.usecases.sbom import write_sbom

    text = json.dumps(write_sbom(*unfinished.open_project(path)), indent=2)
    if file is None:
        output.data(text)
    else:
        output.write_file(file, f"{text}\n")
