"""`vextract upgrade`: change verl's release, options or templates, and keep the owner's edits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from extractor.cli import options, output, upgrade_report
from extractor.cli.options import AllowDirty, DryRun, From, Json, Offline, Project, Verbose, features

if TYPE_CHECKING:
    from extractor.project.journal import Journal
    from extractor.usecases.changes import Changes
    from extractor.usecases.upgrade import Upgrade
    from extractor.usecases.upgrade.choices import UpgradeRequest
    from extractor.values.errors import VextractError


def command(
    path: Project = Path(),
    to: Annotated[
        Optional[str],  # noqa: UP045
        options.release(
            "Release of verl, newer or older; the newest supported one by default, and the present one where other"
            " options are given."
        ),
    ] = None,
    engine: Annotated[Optional[str], options.engine("Change the rollout engine: hf, vllm or sglang.")] = None,  # noqa: UP045
    algorithm: Annotated[Optional[str], options.algorithm("Change the preset: grpo, ppo, dapo...")] = None,  # noqa: UP045
    with_: Annotated[Optional[list[str]], features("--with", "Add an optional feature")] = None,  # noqa: UP045
    without: Annotated[Optional[list[str]], features("--without", "Remove a feature")] = None,  # noqa: UP045
    continue_: Annotated[
        bool,
        typer.Option("--continue", help="Finish an interrupted upgrade, or one whose conflicts are resolved."),
    ] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Undo an unfinished upgrade, byte for byte.")] = False,
    allow_dirty: AllowDirty = False,
    from_: From = None,
    offline: Offline = False,
    dry_run: DryRun = False,
    diff: Annotated[bool, typer.Option("--diff", help="With --dry-run: show how upstream's text differs.")] = False,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Move to another verl, other options or newer templates.

    Your edits are merged in. Hooks and code of your own are never written. With --dry-run it also shows what changed
    in the algorithms that the project uses.
    """
    from extractor.project import journal, location
    from extractor.usecases.upgrade.choices import UpgradeRequest
    from extractor.values.errors import UsageError

    request = UpgradeRequest(to, engine, algorithm, tuple(with_ or ()), tuple(without or ()))
    if continue_ or abort:
        flag = "--continue" if continue_ else "--abort"
        if (continue_ and abort) or dry_run or diff or allow_dirty or from_ or request != UpgradeRequest():
            raise UsageError(f"{flag} takes no other option", hint=f"run `vextract upgrade {flag}`")
    if diff and not dry_run:
        raise UsageError("--diff needs --dry-run", hint="your own edits are shown by `vextract diff`")
    if not continue_ and not abort:
        return change(
            path, request, from_, offline, allow_dirty, dry_run=dry_run, diff=diff, verbose=verbose, json=json
        )
    root = location.find(path, half_way=True)
    with journal.only_upgrade(root):
        return _continue(root, json) if continue_ else _abort(root, json)


def change(
    path: Path,
    request: "UpgradeRequest",
    origin: Path | None,
    offline: bool,
    allow_dirty: bool,
    *,
    dry_run: bool,
    diff: bool = False,
    verbose: bool,
    json: bool,
) -> int:
    """Change a project's options, or show the change; return the exit code."""
    from extractor.project import journal, location

    root = location.find(path, half_way=True)
    with journal.only_upgrade(root):
        if dry_run:
            return _dry_run(root, request, origin, offline, diff, verbose, json)
        return _upgrade(root, request, origin, offline, allow_dirty, verbose, json)


def _dry_run(
    root: Path, request: "UpgradeRequest", origin: Path | None, offline: bool, diff: bool, verbose: bool, json: bool
) -> int:
    from extractor.cli import changes

    found = _prepare(root, request, origin, offline)
    about = _changes(root, found, origin, offline) if found.changes_anything else None
    if json:
        report = upgrade_report.as_json(root, found, written=False)
        report["changes"] = changes.as_json(about, about.symbols, diff) if about is not None else None
        output.data_json(report)
        return 0
    # Whoever asks for the differences asks for what they belong to.
    upgrade_report.show(found, True, about, diff=diff, verbose=verbose or diff)
    return 0


def _upgrade(
    root: Path,
    request: "UpgradeRequest",
    origin: Path | None,
    offline: bool,
    allow_dirty: bool,
    verbose: bool,
    json: bool,
) -> int:
    from extractor.project import journal
    from extractor.usecases import upgrade

    found = _prepare(root, request, origin, offline)
    if found.changes_anything:
        if not allow_dirty:
            upgrade.check_committed(found)
        journal.end(root)
        with output.progress("writing"):
            upgrade.write(root, found)
    if json:
        output.data_json(upgrade_report.as_json(root, found, written=found.changes_anything))
    else:
        upgrade_report.show(found, False, None, diff=False, verbose=verbose)
    return 1 if upgrade_report.counts_of(found.plan)["conflict"] else 0


def _prepare(root: Path, request: "UpgradeRequest", origin: Path | None, offline: bool) -> "Upgrade":
    from extractor.project import journal
    from extractor.project.journal import Phase
    from extractor.usecases import upgrade
    from extractor.values.errors import CheckFailed

    entry = journal.read(root)
    if entry is not None and journal.phase(root, entry) is Phase.CONFLICTS:
        raise CheckFailed(
            f"an upgrade is not finished, it has conflicts: {entry.title}",
            hint="resolve them and run `vextract upgrade --continue`, or undo it with `vextract upgrade --abort`",
        )
    if entry is not None and journal.phase(root, entry) is Phase.HALF_WAY:
        raise journal.interrupted(entry)
    with output.progress("working out the upgrade"):
        found = upgrade.prepare(root, request, origin=origin, offline=offline)
    for text in found.generated.warnings:
        output.warning(text)
    return found


def _changes(root: Path, found: "Upgrade", origin: Path | None, offline: bool) -> "Changes | None":
    """Return changes in the vendored code; None without the old release."""
    from extractor.pipeline.plan import Verdict
    from extractor.usecases import restore
    from extractor.usecases.changes import report
    from extractor.usecases.changes.config_keys import read_config
    from extractor.values.config_files import is_config
    from extractor.values.errors import VextractError

    same = found.old.options.verl == found.new.options.verl
    config = read_config(root / "config") if (root / "config").is_dir() else {}
    # The files as they will be: what is carried over needs no further change. One in conflict is as it is until then.
    conflicts = found.plan.paths(Verdict.CONFLICT)
    writes = {
        path: data.decode(errors="replace")
        for path, data in found.plan.writes().items()
        if is_config(path) and path not in conflicts
    }
    config = {path: text for path, text in {**config, **writes}.items() if path not in found.plan.removals()}
    try:
        with output.progress(f"comparing with verl {found.old.options.verl}"):
            again = restore.regenerate(found.old, origin=origin if same else None, offline=offline)
            return report(again.generated, found.generated, again.source, found.source, config)
    except VextractError as error:
        output.warning(f"cannot tell what changed in the code that you use: {error.message}")
        return None


def _continue(root: Path, json: bool) -> int:
    from extractor.pipeline import apply
    from extractor.project import journal
    from extractor.project.journal import Phase
    from extractor.usecases.upgrade import unresolved

    entry = journal.read(root)
    if entry is None:
        raise _nothing(journal.end(root), "continue")
    if journal.phase(root, entry) is Phase.HALF_WAY:
        apply.resume(root, entry)
        if entry.conflicts:
            _say_unfinished(entry, json)
            return 1
    unresolved.check(root, entry)
    for text in unresolved.find_oddities(root, entry):
        output.warning(text)
    journal.end(root)
    if json:
        output.data_json({"path": str(root), "upgrade": entry.title, "finished": True})
    else:
        output.data(f"finished: {entry.title}")
    return 0


def _say_unfinished(entry: "Journal", json: bool) -> None:
    from extractor.project import journal

    conflicts = journal.paths(entry.conflicts)
    if json:
        output.data_json({"upgrade": entry.title, "finished": False, "conflicts": list(conflicts)})
    else:
        output.data("\n".join(f"conflict  {path}" for path in conflicts))
        output.note(upgrade_report.RESOLVE)


def _abort(root: Path, json: bool) -> int:
    from extractor.pipeline import apply
    from extractor.project import journal

    entry = journal.read(root)
    if entry is None:
        raise _nothing(journal.end(root), "abort")
    saved = apply.undo(root, entry)
    if json:
        output.data_json({"path": str(root), "upgrade": entry.title, "aborted": True, "saved": list(saved)})
    else:
        output.data(f"undone: {entry.title}; every file is as it was")
        for path in saved:
            output.note(f"what you have written since is in {path}")
    return 0


def _nothing(leftovers: bool, what: str) -> "VextractError":
    from extractor.values.errors import UsageError

    why = (
        "an upgrade was interrupted, before it changed anything or after all was done"
        if leftovers
        else "no upgrade is going on"
    )
    return UsageError(f"nothing to {what}: {why}", hint="`vextract status` tells where the project stands")
