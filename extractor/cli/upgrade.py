"""`vextract upgrade`, `add`, `remove`, `outdated` and `merge`: change a project, keeping edits."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from extractor.cli import options, output, screen, upgrade_report
from extractor.cli.options import argument, make_features_option, option
from extractor.cli.unfinished import RESOLVE
from extractor.values.errors import CheckFailed, UsageError, VextractError

if TYPE_CHECKING:
    from collections.abc import Callable

    from extractor.project.journal import Journal
    from extractor.usecases.changes import Changes
    from extractor.usecases.upgrade import Upgrade
    from extractor.usecases.upgrade.choices import UpgradeRequest


To = Annotated[
    str | None,
    option(
        "--to RELEASE",
        "Release of verl, newer or older; the newest supported one by default, and the present one where other"
        " options are given.",
    ),
]
Engine = Annotated[str | None, option("--engine", "Change the rollout engine: hf, vllm or sglang.")]
Algorithm = Annotated[str | None, option("--algorithm", "Change the preset: grpo, ppo, dapo...")]
With = Annotated[list[str] | None, make_features_option("--with", "Add an optional feature")]
Without = Annotated[list[str] | None, make_features_option("--without", "Remove a feature")]
Numbers = Annotated[
    bool, option("--numbers", "Compute upstream's cases in both releases, and say what moved: minutes.")
]
Names = Annotated[list[str], argument("NAME...", "Features, or symbols and files of verl: `verl.utils.x:f`.")]


@screen.answers
def upgrade(
    path: options.Project = Path(),
    to: To = None,
    engine: Engine = None,
    algorithm: Algorithm = None,
    with_: With = None,
    without: Without = None,
    continue_: Annotated[
        bool, option("--continue", "Finish an interrupted upgrade, or one whose conflicts are resolved.")
    ] = False,
    abort: Annotated[bool, option("--abort", "Undo an unfinished upgrade, byte for byte.")] = False,
    allow_dirty: options.AllowDirty = False,
    from_: options.From = None,
    offline: options.Offline = False,
    dry_run: options.DryRun = False,
    pr: Annotated[Path | None, option("--pr FILE.md", "Describe the upgrade for a reviewer in this file.")] = None,
    numbers: Numbers = False,
) -> screen.Answer:
    """Move to another verl, other options or newer templates.

    Your edits are merged in. Hooks and code of your own are never written. With --dry-run it also shows what changed
    in the algorithms that the project uses.
    """
    from extractor.project import journal, location
    from extractor.usecases.upgrade.choices import UpgradeRequest

    request = UpgradeRequest(to, engine, algorithm, tuple(with_ or ()), tuple(without or ()))
    if continue_ or abort:
        flag = "--continue" if continue_ else "--abort"
        if (continue_ and abort) or dry_run or allow_dirty or from_ or pr or request != UpgradeRequest():
            raise UsageError(f"{flag} takes no other option", hint=f"run `vextract upgrade {flag}`")
        root = location.find(path, half_way=True)
        with journal.lock_upgrades(root):
            return _continue(root) if continue_ else _abort(root)
    if numbers and not pr:
        raise UsageError("--numbers goes into the page of --pr", hint="`vextract outdated --numbers` prints them")
    page = None if pr is None else partial(output.write_file, pr)
    told = _change(path, request, from_, offline, dry_run=dry_run, allow_dirty=allow_dirty, page=page, numbers=numbers)
    return upgrade_report.answer(*told, dry_run)


def _make_features_command(adding: bool, text: str) -> "Callable[..., int]":
    """Make the command that adds or removes features."""

    def command(
        names: Names,
        project: options.InProject = Path(),
        allow_dirty: options.AllowDirty = False,
        from_: options.From = None,
        offline: options.Offline = False,
        dry_run: options.DryRun = False,
    ) -> screen.Answer:
        from extractor.usecases.upgrade.choices import UpgradeRequest

        request = UpgradeRequest.from_names(**{"added" if adding else "dropped": names})
        told = _change(project, request, from_, offline, dry_run=dry_run, allow_dirty=allow_dirty)
        return upgrade_report.answer(*told, dry_run)

    command.__doc__ = text
    return screen.answers(command)


add = _make_features_command(
    True,
    "Add features, or more of verl, to a project.\n\n"
    "What they need comes along; `vextract versions -v` lists the features. Symbols and files of verl are written to"
    " vextract.toml, which upgrades follow.",
)
remove = _make_features_command(
    False,
    "Remove features, or more of verl, from a project.\n\n"
    "Files of theirs that you have edited are set aside, not removed.",
)


def _change(
    path: Path,
    request: "UpgradeRequest",
    origin: Path | None,
    offline: bool,
    *,
    dry_run: bool,
    allow_dirty: bool = False,
    page: "Callable[[str], object] | None" = None,
    numbers: bool = False,
) -> tuple[Path, "Upgrade", "Changes | None"]:
    """Change a project, or work out the change; hand the page for reviewers to `page`."""
    from extractor.project import journal, location
    from extractor.usecases import upgrade

    root = location.find(path, half_way=True)
    with journal.lock_upgrades(root):
        _check_finished(root)
        with output.show_progress("working out the upgrade"):
            found = upgrade.prepare(root, request, origin=origin, offline=offline)
        for text in found.generated.warnings:
            output.print_warning(text)
        if not found.changes_anything:
            return root, found, None
        about = compare(found, origin, offline) if dry_run or page else None
        write_page = _prepare_page(root, found, about, offline, numbers) if page else None
        if not dry_run:
            if not allow_dirty:
                upgrade.check_committed(found)
            journal.discard(root)  # only leftovers: an unfinished upgrade was refused above
            with output.show_progress("writing"):
                upgrade.write(root, found)
        if page is not None and write_page is not None:
            page(write_page())
    return root, found, about


def _check_finished(root: Path) -> None:
    from extractor.project import journal
    from extractor.project.journal import Phase

    entry = journal.read(root)
    phase = None if entry is None else journal.read_phase(root, entry)
    if entry is not None and phase is Phase.CONFLICTS:
        raise CheckFailed(f"an upgrade is not finished, it has conflicts: {entry.title}", hint=RESOLVE)
    if entry is not None and phase is Phase.HALF_WAY:
        raise journal.explain_interrupted(entry)


def compare(found: "Upgrade", origin: Path | None, offline: bool) -> "Changes | None":
    """Return changes in the vendored code; None without the old release."""
    from extractor.usecases import emitted_files
    from extractor.usecases.changes import report

    same = found.old.options.verl == found.new.options.verl
    try:
        with output.show_progress(f"comparing with verl {found.old.options.verl}"):
            again = emitted_files.regenerate(found.old, origin=origin if same else None, offline=offline)
            return report(again.generated, found.generated, found.old.options.verl, found.new.options.verl)
    except VextractError as error:
        output.print_warning(f"cannot tell what changed in the code that you use: {error.message}")
        return None


def _prepare_page(
    root: Path, found: "Upgrade", about: "Changes | None", offline: bool, numbers: bool
) -> "Callable[[], str]":
    """Look at a project before the upgrade; return what writes the page for reviewers."""
    from extractor.usecases import emitted_files
    from extractor.usecases.upgrade.review import compare_releases, find_touched, review

    touched, moved = find_touched(root, found.old), None
    if numbers:
        with output.show_progress("computing upstream's cases in both releases"):
            old = emitted_files.open_upstream(found.old, offline=offline)[1]
            moved = compare_releases(root, old, found.source)
    return lambda: review(root, found, about, touched, moved)


def _continue(root: Path) -> screen.Answer:
    from extractor.pipeline import apply
    from extractor.project import journal
    from extractor.usecases.upgrade import unresolved

    entry = _read_pending(root, "continue")
    if journal.read_phase(root, entry) is journal.Phase.HALF_WAY:
        apply.resume(root, entry)
        if conflicts := [item.path for item in entry.conflicts]:
            data = {"upgrade": entry.title, "finished": False, "conflicts": conflicts}
            return screen.Answer(data, [f"conflict  {path}" for path in conflicts], notes=[RESOLVE], code=1)
    unresolved.refuse_unresolved(root, entry)
    oddities = unresolved.describe_doubtful_resolutions(root, entry)
    journal.discard(root)
    data = {"path": root, "upgrade": entry.title, "finished": True}
    return screen.Answer(data, [f"finished: {entry.title}"], warnings=oddities)


def _abort(root: Path) -> screen.Answer:
    from extractor.pipeline import apply

    entry = _read_pending(root, "abort")
    saved = apply.undo(root, entry)
    return screen.Answer(
        {"path": root, "upgrade": entry.title, "aborted": True, "saved": saved},
        [f"undone: {entry.title}; every file is as it was"],
        notes=[f"what you have written since is in {path}" for path in saved],
    )


def _read_pending(root: Path, what: str) -> "Journal":
    """Return the journal of the pending upgrade; without one, remove leftovers and refuse."""
    from extractor.project import journal

    if (entry := journal.read(root)) is not None:
        return entry
    why = "no upgrade is going on"
    if journal.discard(root):
        why = "an upgrade was interrupted, before it changed anything or after all was done"
    raise UsageError(f"nothing to {what}: {why}", hint="`vextract status` tells where the project stands")


def outdated(
    path: options.Project = Path(),
    to: Annotated[
        str | None, option("--to RELEASE", "Compare with this one; by default the newest supported one.")
    ] = None,
    numbers: Numbers = False,
    from_: options.From = None,
    offline: options.Offline = False,
) -> int:
    """Show what the newest verl would change of yours, as Markdown.

    Nothing is written, and none of the project's code is run. The exit code is 1 where there is something to upgrade.
    """
    from extractor.usecases.upgrade.choices import UpgradeRequest

    _, found, _ = _change(
        path,
        UpgradeRequest(to),
        from_,
        offline,
        dry_run=True,
        page=lambda text: output.print_data(text.rstrip("\n")),
        numbers=numbers,
    )
    if not found.changes_anything:
        output.print_data("up to date")
    return int(found.changes_anything)


@screen.answers
def merge(
    branch: Annotated[
        str | None, argument("", "The branch to merge; none: that of the merge that Git has begun.")
    ] = None,
    project: options.InProject = Path(),
    from_: options.From = None,
    offline: options.Offline = False,
    driver: Annotated[bool, option("--driver", "Print the command that has Git tell of this one.")] = False,
) -> screen.Answer:
    """Merge a Git branch, also one at another release.

    Both branches are taken to the newer release of the two, and their edits are merged there. The work tree and Git's
    index hold the result; you commit it.
    """
    from extractor.project import journal, location
    from extractor.project.git import GitError
    from extractor.usecases import merge_branches

    if driver:
        return screen.Answer(merge_branches.DRIVER, [merge_branches.DRIVER])
    root = location.find(project)
    try:
        with journal.lock_upgrades(root):
            with output.show_progress("taking both branches to one release"):
                found = merge_branches.merge_in_memory(root, branch, origin=from_, offline=offline)
            merge_branches.write(root, found, branch)
    except GitError as error:
        raise CheckFailed(f"git: {error}", hint="`git status` says what is in the way") from None
    lines = [f"merged {found.sides[2].name} at verl {found.options.verl}: {len(found.conflicts)} in conflict"]
    for path, numbers in found.conflicts.items():
        where = f"line{'s'[: len(numbers) > 1]} {', '.join(map(str, numbers))}" if numbers else "changed and removed"
        lines.append(f"conflict  {path}  ({where})")
    return screen.Answer(
        {"path": root, "verl": found.options.verl, "conflicts": dict(found.conflicts)},
        lines,
        notes=["`git commit` concludes the merge once nothing is in conflict, and `git merge --abort` undoes it"],
        code=int(bool(found.conflicts)),
    )
