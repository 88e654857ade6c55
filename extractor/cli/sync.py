"""`vextract sync`: restore vendored files, byte for byte."""

from pathlib import Path
from typing import Annotated

from extractor.cli import output, screen, unfinished
from extractor.cli.options import DryRun, From, Json, Offline, Project, Verbose, option


def command(
    path: Project = Path(),
    from_: From = None,
    offline: Offline = False,
    removed: Annotated[bool, option("--removed", "Bring back the project's other files too.")] = False,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Restore missing vendored files, byte for byte.

    If the bytes would not be those of the lock, it fails and says what differs. Edited files stay as they are, and so
    do hooks.
    """
    from extractor.pipeline import apply
    from extractor.pipeline.plan import Reason, Verdict, plan_sync, read_digests_on_disk
    from extractor.project import base
    from extractor.usecases import restore

    root, locked = unfinished.open_project(path)
    with output.steps("getting the emitted files"):
        emitted, rebuilt = restore.read_emitted(root, locked, origin=from_, offline=offline)
    plan = plan_sync(locked, emitted, read_digests_on_disk(locked, root), removed=removed)
    if not dry_run:
        apply.restore(root, plan, base_data=base.dump(emitted) if rebuilt else None)
    kept = {
        name: plan.paths(Verdict.KEEP, reason)
        for name, reason in (("unchanged", Reason.UNCHANGED), ("edited", Reason.EDITED), ("removed", Reason.REMOVED))
    }
    restored = plan.paths(Verdict.ADD)
    if json:
        report = {"path": root, "written": not dry_run, "restored": restored, **kept, "base_rebuilt": rebuilt}
        output.data_json(report)
        return
    head = [
        f"{output.count_noun(len(restored), 'file')} {'would be ' if dry_run else ''}restored,"
        f" {len(kept['unchanged'])} as emitted; all bytes match vextract.lock"
    ]
    if rebuilt:
        head.append(f"{'damaged ' if dry_run else 'rebuilt '}  .vextract/base.zip ({rebuilt})")
    lists = [
        [f"{'missing ' if dry_run else 'restored'}  {path}" for path in restored],
        [f"edited    {path} (left as it is)" for path in kept["edited"]],
        [f"removed   {path} (left so; --removed brings it back)" for path in kept["removed"]],
    ]
    screen.show(head, [screen.Section(lines, prefix=" " * 10) for lines in lists], verbose=verbose)
