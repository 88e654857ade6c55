"""`vextract merge`: merge a Git branch of the project."""

from pathlib import Path
from typing import Annotated

from extractor.cli import output
from extractor.cli.options import From, InProject, Json, Offline, argument, option
from extractor.values.errors import CheckFailed


def merge(
    branch: Annotated[
        str | None, argument("", "The branch to merge; none: that of the merge that Git has begun.")
    ] = None,
    project: InProject = Path(),
    from_: From = None,
    offline: Offline = False,
    driver: Annotated[bool, option("--driver", "Print the command that has Git tell of this one.")] = False,
    json: Json = False,
) -> int:
    """Merge a Git branch, also one at another release.

    Both branches are taken to the newer release of the two, and their edits are merged there. The work tree and Git's
    index hold the result; you commit it.
    """
    from extractor.project import journal, location
    from extractor.project.git import Unanswered
    from extractor.usecases import merge_branches

    if driver:
        output.data(merge_branches.DRIVER)
        return 0
    root = location.find(project)
    try:
        with journal.lock_upgrades(root):
            with output.steps("taking both branches to one release"):
                found = merge_branches.merge_in_memory(root, branch, origin=from_, offline=offline)
            merge_branches.write(root, found, branch)
    except Unanswered as error:
        raise CheckFailed(f"git: {error}", hint="`git status` says what is in the way") from None
    if json:
        output.data_json({"path": root, "verl": found.options.verl, "conflicts": dict(found.conflicts)})
    else:
        lines = [f"merged {found.sides[2].name} at verl {found.options.verl}: {len(found.conflicts)} in conflict"]
        for path, numbers in found.conflicts.items():
            where = (
                f"line{'s'[: len(numbers) > 1]} {', '.join(map(str, numbers))}" if numbers else "changed and removed"
            )
            lines.append(f"conflict  {path}  ({where})")
        output.data("\n".join(lines))
        output.note("`git commit` concludes the merge once nothing is in conflict, and `git merge --abort` undoes it")
    return 1 if found.conflicts else 0
