"""`vextract sync`: restore vendored files, byte for byte."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extractor.cli import output, screen, unfinished
from extractor.cli.options import DryRun, From, Json, Offline, Project, Verbose

if TYPE_CHECKING:
    from extractor.pipeline.plan import Plan
    from extractor.usecases.restore import Regenerated


def command(
    path: Project = Path(),
    from_: From = None,
    offline: Offline = False,
    removed: Annotated[bool, typer.Option("--removed", help="Bring back the project's other files too.")] = False,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Restore missing vendored files, byte for byte.

    If the bytes would not be those of the lock, it fails and says what differs. Edited files stay as they are, and so
    do hooks.
    """
    from extractor.pipeline import apply
    from extractor.pipeline.plan import digests_on_disk, plan_sync
    from extractor.project import base, location, lock
    from extractor.usecases import restore

    root = location.find(path)
    unfinished.refuse(root)
    locked = lock.read(root)
    with output.progress("getting the emitted files"):
        emitted = restore.emitted(root, locked, origin=from_, offline=offline)
    plan = plan_sync(locked, emitted.files, digests_on_disk(locked, root), removed=removed)
    if not dry_run:
        apply.restore(root, plan, base_data=base.dump(emitted.files) if emitted.rebuilt else None)
    if json:
        output.data_json(_report(root, plan, emitted, dry_run))
    else:
        _show(plan, emitted, dry_run, verbose)


def _show(plan: "Plan", emitted: "Regenerated", dry_run: bool, verbose: bool) -> None:
    from extractor.pipeline.plan import Reason, Verdict

    restored = plan.paths(Verdict.ADD)
    would = "would be " if dry_run else ""
    edited = [f"edited    {path} (left as it is)" for path in plan.paths(Verdict.KEEP, Reason.EDITED)]
    back = "left so; --removed brings it back"
    removed = [f"removed   {path} ({back})" for path in plan.paths(Verdict.KEEP, Reason.REMOVED)]
    same = len(plan.paths(Verdict.KEEP, Reason.UNCHANGED))
    files = "1 file" if len(restored) == 1 else f"{len(restored)} files"
    head = [f"{files} {would}restored, {same} as emitted; all bytes match vextract.lock"]
    if emitted.rebuilt:
        head.append(f"{'damaged ' if dry_run else 'rebuilt '}  .vextract/base.zip ({emitted.rebuilt})")
    lists = [[f"{'missing ' if dry_run else 'restored'}  {path}" for path in restored], edited, removed]
    screen.show(head, [screen.Section(lines, prefix=" " * 10) for lines in lists], verbose=verbose)


def _report(root: Path, plan: "Plan", emitted: "Regenerated", dry_run: bool) -> dict[str, object]:
    from extractor.pipeline.plan import Reason, Verdict

    return {
        "path": str(root),
        "written": not dry_run,
        "restored": list(plan.paths(Verdict.ADD)),
        "unchanged": list(plan.paths(Verdict.KEEP, Reason.UNCHANGED)),
        "edited": list(plan.paths(Verdict.KEEP, Reason.EDITED)),
        "removed": list(plan.paths(Verdict.KEEP, Reason.REMOVED)),
        "base_rebuilt": emitted.rebuilt,
    }
