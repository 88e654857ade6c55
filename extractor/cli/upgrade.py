"""`vextract upgrade`, `add`, `remove`, `outdated` and `merge`: change a project, keeping edits."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from extractor.cli import options, output, releases, screen
from extractor.cli.options import argument, describe, make_features_option, option
from extractor.cli.unfinished import RESOLVE
from extractor.values.errors import CheckFailed, UsageError, VextractError

if TYPE_CHECKING:
    from collections.abc import Callable

    from extractor.project.journal import Journal
    from extractor.usecases.changes import Changes
    from extractor.usecases.upgrade import Upgrade
    from extractor.usecases.upgrade.choices import UpgradeRequest

# What asks for thought, and what does not.
_FIRST = {"conflict": "in conflict", "orphan": "orphaned", "merge": "merged"}
_REST = {"delete": "deleted", "update": "updated", "add": "added", "keep": "kept"}

To = Annotated[str | None, option("--to RELEASE", "Release of verl; by default the newest supported one.")]
Engine = Annotated[str | None, option("--engine", "Change the rollout engine: hf, vllm or sglang.")]
Algorithm = Annotated[str | None, option("--algorithm", "Change the preset: grpo, ppo, dapo...")]
With = Annotated[list[str] | None, make_features_option("--with", "Add an optional feature")]
Without = Annotated[list[str] | None, make_features_option("--without", "Remove a feature")]
Numbers = Annotated[bool, option("--numbers", "Compute upstream's cases in both releases: which results moved.")]
Names = Annotated[list[str], argument("NAME...", "Features, or symbols and files of verl: `verl.utils.x:f`.")]


@screen.answers
def upgrade(
    path: options.Project = Path(),
    to: To = None,
    engine: Engine = None,
    algorithm: Algorithm = None,
    with_: With = None,
    without: Without = None,
    continue_: Annotated[bool, option("--continue", "Finish an upgrade after a kill or conflicts.")] = False,
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
    told = change_project(
        path, request, from_, offline, dry_run=dry_run, allow_dirty=allow_dirty, page=page, numbers=numbers
    )
    return _answer(*told, dry_run)


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
        told = change_project(project, request, from_, offline, dry_run=dry_run, allow_dirty=allow_dirty)
        return _answer(*told, dry_run)

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


def change_project(
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
    from extractor.usecases import emitted_files, upgrade

    root = location.find(path, half_way=True)
    with journal.lock_upgrades(root):
        pending = journal.read(root)
        phase = None if pending is None else journal.read_phase(root, pending)
        if pending is not None and phase is journal.Phase.CONFLICTS:
            raise CheckFailed(f"an upgrade is not finished, it has conflicts: {pending.title}", hint=RESOLVE)
        if pending is not None and phase is journal.Phase.HALF_WAY:
            raise journal.explain_interrupted(pending)
        with output.show_progress("working out the upgrade"):
            planned = upgrade.prepare(root, request, origin=origin, offline=offline)
        for text in planned.generated.warnings:
            output.print_warning(text)
        if not planned.changes_anything:
            return root, planned, None
        about = compare(planned, origin, offline) if dry_run or page else None
        moved = list[str]()
        if numbers:
            from extractor.usecases.upgrade.review import compare_releases

            with output.show_progress("computing upstream's cases in both releases"):
                old = emitted_files.open_upstream(planned.old, offline=offline)[1]
                moved = compare_releases(root, old, planned.generated.source)
        if not dry_run:
            if not allow_dirty and (error := upgrade.explain_uncommitted(planned)):
                raise error
            journal.discard(root)  # only leftovers: an unfinished upgrade was refused above
            with output.show_progress("writing"):
                upgrade.write(root, planned)
        if page is not None:
            from extractor.usecases.upgrade.review import review

            page(review(root, planned, about, moved))
    return root, planned, about


def compare(planned: "Upgrade", origin: Path | None, offline: bool) -> "Changes | None":
    """Return changes in the vendored code; None without the old release."""
    from extractor.usecases import emitted_files
    from extractor.usecases.changes import report

    same = planned.old.options.verl == planned.new.options.verl
    try:
        with output.show_progress(f"comparing with verl {planned.old.options.verl}"):
            again = emitted_files.regenerate(planned.old, origin=origin if same else None, offline=offline)
            return report(again, planned.generated)
    except VextractError as error:
        output.print_warning(f"cannot tell what changed in the code that you use: {error.message}")
        return None


def _answer(root: Path, planned: "Upgrade", about: "Changes | None", dry_run: bool) -> screen.Answer:
    """Report an upgrade: the verdict, what needs thought, then the rest.

    Args:
        dry_run: Nothing was written.
        about: What changed in the vendored code; None where that was not asked for or cannot be told.
    """
    verdicts = [
        output.pick(
            action,
            "path verdict kind reason note",
            writes=[action.path] * (action.data is not None) + [path for path, _ in action.side_files],
        )
        for action in planned.plan.actions
    ]
    data = {
        "path": root,
        "written": planned.changes_anything and not dry_run,
        **output.pick(planned, "setup=changes_requirements counts hooks=problems uncommitted"),
        "from": planned.old.options,
        "to": planned.new.options,
        "verdicts": verdicts,
        "settings": output.pick(planned.settings, "moved lost", to_change=planned.stale),
        "changes": about,
    }
    if not planned.changes_anything:
        return screen.Answer(
            data, [f"up to date: {describe(planned.new.options)}"], notes=_list_next_steps(planned, dry_run)
        )
    head = _write_head(planned, dry_run)
    problems = [f"  to change {item.file}:{item.line}  ({item.name}: {item.problem})" for item in planned.problems]
    sections = [
        *_select_by_verdict(planned, list(_FIRST)),
        screen.Section(problems, "your code", whole=True),
        screen.Section(_describe_settings(planned), "your settings", whole=True),
        *_select_by_verdict(planned, list(_REST)),
    ]
    if about is not None:
        head.append(f"verl's code that you use: {releases.count_kinds(about)}")
        sections += [replace(item, rest=True) for item in releases.write_sections(about)]
    return screen.Answer(
        data,
        head,
        sections,
        more=["-v shows verl's code"] if about is not None else [],
        notes=_list_next_steps(planned, dry_run),
        code=int(planned.counts["conflict"] > 0 and not dry_run),
    )


def _write_head(planned: "Upgrade", dry_run: bool) -> list[str]:
    from extractor.usecases.upgrade.choices import find_gone
    from extractor.values import releases

    counts, moved = dict(planned.counts), len(planned.left_places)
    counts["delete"] -= moved
    told = [f"{counts[verdict]} {said}" for verdict, said in (_FIRST | _REST).items() if counts[verdict]]
    told += [f"{moved} of them moved"] if moved else []
    told = told if counts["conflict"] else ["no conflicts", *told]
    head = [f"{planned.title}: {', '.join(told)}{' (nothing was written)' if dry_run else ''}"]
    if planned.used_features:
        used = ", ".join(f"{name} ({path})" for name, path in sorted(planned.used_features.items()))
        head.append(f"now optional features, kept because your files use them: {used}")
    if gone := find_gone(planned.old.options, releases.load(planned.new.options.verl)):
        head.append(f"features that vextract no longer has: {', '.join(gone)}")
    # One that nothing uses may still come along with one that needs it.
    if left := [name for name in planned.unused_features if name not in planned.new.options.features]:
        head.append(
            f"now optional features, left out as unused (`vextract add {left[0]}` brings one back): {', '.join(left)}"
        )
    return head


def _select_by_verdict(planned: "Upgrade", verdicts: list[str]) -> list[screen.Section]:
    """Return the files by verdict, without those that are only counted."""
    lines: dict[str, list[str]] = {verdict: [] for verdict in verdicts}
    for action in planned.plan.actions:
        verdict, reason = action.verdict.value, action.reason.value
        counted = verdict == "keep" and not action.note and action.reason.name != "EDITED"
        if verdict in lines and not counted and action not in planned.left_places:
            why = f"{reason}; {action.note}" if action.note else reason
            lines[verdict].append(f"{verdict:8}  {action.path}  ({why})")
    return [screen.Section(told) for told in lines.values()]


def _describe_settings(planned: "Upgrade") -> list[str]:
    """Say what became of the owner's settings."""
    lines = []
    for item in planned.settings.moved:
        where = f"now in {item.new_file}" if item.new_file != item.file else "refers to keys by their new names"
        where = f"now {item.new_key}" if item.new_key != item.key else where
        lines.append(f"  moved     {item.key}: {item.value}  ({where})")
    for lost in planned.settings.lost:
        lines.append(f"  lost      {lost.key}: {lost.value}  ({planned.labels.theirs} has no such setting)")
    return [*lines, *(f"  to change {key.file}:{key.line}  ({key.problem})" for key in planned.stale)]


def _list_next_steps(planned: "Upgrade", dry_run: bool) -> list[str]:
    """Return one line per thing a user should know or do."""
    from extractor.usecases.upgrade import explain_uncommitted

    lines = []
    if dry_run and (error := explain_uncommitted(planned)):
        lines.append(f"{error.message}: {error.hint}")
    if planned.counts["conflict"] and not dry_run:
        lines.append(RESOLVE)
    if planned.counts["orphan"]:
        lines.append("orphans lie below orphaned/, each with a note")
    if planned.stale:
        lines.append("delete the keys marked `to change` under `your settings`: nothing in the project reads them now")
    if any(action.reason.name == "REMOVED" and action.note for action in planned.plan.actions):
        lines.append("files that you removed stay removed; `vextract sync` restores those of verl, `--removed` all")
    if planned.changes_requirements:
        would = "would change: `make setup` would install it" if dry_run else "has changed: run `make setup`"
        lines.append(f"what the project requires {would}")
    return lines


def _continue(root: Path) -> screen.Answer:
    from extractor.pipeline import apply
    from extractor.project import journal
    from extractor.usecases.upgrade import unresolved

    pending = _read_pending(root, "continue")
    if journal.read_phase(root, pending) is journal.Phase.HALF_WAY:
        apply.resume(root, pending)
        if conflicts := [item.path for item in pending.conflicts]:
            data = {"upgrade": pending.title, "finished": False, "conflicts": conflicts}
            return screen.Answer(data, [f"conflict  {path}" for path in conflicts], notes=[RESOLVE], code=1)
    if left := unresolved.find_unresolved(root, pending):
        is_beside = any(" lies in " in line for line in left)
        todo = "take from it what you need and remove it" if is_beside else "edit the file and remove the markers"
        raise CheckFailed("; ".join(left), hint=f"{todo}, then run `vextract upgrade --continue`")
    oddities = unresolved.describe_doubtful_resolutions(root, pending)
    journal.discard(root)
    data = {"path": root, "upgrade": pending.title, "finished": True}
    return screen.Answer(data, [f"finished: {pending.title}"], warnings=oddities)


def _abort(root: Path) -> screen.Answer:
    from extractor.pipeline import apply

    pending = _read_pending(root, "abort")
    saved = apply.undo(root, pending)
    return screen.Answer(
        {"path": root, "upgrade": pending.title, "aborted": True, "saved": saved},
        [f"undone: {pending.title}; every file is as it was"],
        notes=[f"what you have written since is in {path}" for path in saved],
    )


def _read_pending(root: Path, what: str) -> "Journal":
    """Return the journal of the pending upgrade; without one, remove leftovers and refuse."""
    from extractor.project import journal

    if (pending := journal.read(root)) is not None:
        return pending
    why = "no upgrade is going on"
    if journal.discard(root):
        why = "an upgrade was interrupted, before it changed anything or after all was done"
    raise UsageError(f"nothing to {what}: {why}", hint="`vextract status` tells where the project stands")


def outdated(
    path: options.Project = Path(),
    to: Annotated[str | None, option("--to RELEASE", "Compare with this release, not the newest.")] = None,
    numbers: Numbers = False,
    from_: options.From = None,
    offline: options.Offline = False,
) -> int:
    """Show what the newest verl would change of yours, as Markdown.

    Nothing is written, and none of the project's code is run. The exit code is 1 where there is something to upgrade.
    """
    from extractor.usecases.upgrade.choices import UpgradeRequest

    _, planned, _ = change_project(
        path,
        UpgradeRequest(to),
        from_,
        offline,
        dry_run=True,
        page=lambda text: output.print_data(text.rstrip("\n")),
        numbers=numbers,
    )
    if not planned.changes_anything:
        output.print_data("up to date")
    return int(planned.changes_anything)


@screen.answers
def merge(
    branch: Annotated[str | None, argument("", "The branch; without it, that of Git's pending merge.")] = None,
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
                merged = merge_branches.merge_in_memory(root, branch, origin=from_, offline=offline)
            merge_branches.write(root, merged, branch)
    except GitError as error:
        raise CheckFailed(f"git: {error}", hint="`git status` says what is in the way") from None
    lines = [f"merged {merged.sides[2].name} at verl {merged.options.verl}: {len(merged.conflicts)} in conflict"]
    for path, numbers in merged.conflicts.items():
        where = f"line{'s'[: len(numbers) > 1]} {', '.join(map(str, numbers))}" if numbers else "changed and removed"
        lines.append(f"conflict  {path}  ({where})")
    return screen.Answer(
        {"path": root, "verl": merged.options.verl, "conflicts": dict(merged.conflicts)},
        lines,
        notes=["`git commit` concludes the merge once nothing is in conflict, and `git merge --abort` undoes it"],
        code=int(bool(merged.conflicts)),
    )
