"""`vextract outdated`: report what the newest verl release would change."""

from pathlib import Path
from typing import Annotated

from extractor.cli import output, upgrade
from extractor.cli.options import From, Offline, Project, option


def command(
    path: Project = Path(),
    to: Annotated[
        str | None, option("--to RELEASE", "Compare with this one; by default the newest supported one.")
    ] = None,
    numbers: upgrade.Numbers = False,
    from_: From = None,
    offline: Offline = False,
) -> int:
    """Show what the newest verl would change of yours, as Markdown.

    Nothing is written, and none of the project's code is run. The exit code is 1 where there is something to upgrade.
    """
    from extractor.project import journal, location
    from extractor.usecases import upgrade as use_case
    from extractor.usecases.upgrade import review
    from extractor.usecases.upgrade.choices import UpgradeRequest

    root = location.find(path)
    with journal.lock_upgrades(root), output.steps("working out the upgrade"):
        found = use_case.prepare(root, UpgradeRequest(to), origin=from_, offline=offline)
        if not found.changes_anything:
            output.data("up to date")
            return 0
        about = upgrade.compare(root, found, from_, offline)
        moved = upgrade.compute_numbers(root, found, offline) if numbers else None
        output.data(review.review(root, found, about, review.find_touched(root, found.old), moved).rstrip("\n"))
    return 1
