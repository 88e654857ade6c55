"""`vextract remove`: remove optional features from a project."""

from pathlib import Path
from typing import Annotated

import typer

from extractor.cli import completion, upgrade
from extractor.cli.options import AllowDirty, DryRun, From, InProject, Json, Offline, Verbose


def command(
    names: Annotated[
        list[str],
        typer.Argument(metavar="FEATURE...", help="Names of features.", autocompletion=completion.features),
    ],
    project: InProject = Path(),
    allow_dirty: AllowDirty = False,
    from_: From = None,
    offline: Offline = False,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Remove optional features from a project.

    Files of theirs that you have edited are set aside, not removed.
    """
    from extractor.usecases.upgrade.choices import UpgradeRequest

    request = UpgradeRequest(dropped=tuple(names))
    return upgrade.change(project, request, from_, offline, allow_dirty, dry_run=dry_run, verbose=verbose, json=json)
