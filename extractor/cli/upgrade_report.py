"""Describe an upgrade as text and as data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from extractor.cli import output, releases, screen
from extractor.cli.options import describe
from extractor.cli.unfinished import RESOLVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extractor.usecases.changes import Changes
    from extractor.usecases.upgrade import Upgrade

# What asks for thought, and what does not.
_FIRST = {"conflict": "in conflict", "orphan": "orphaned", "merge": "merged"}
_REST = {"delete": "deleted", "update": "updated", "add": "added", "keep": "kept"}


def answer(root: Path, found: Upgrade, about: Changes | None, dry_run: bool) -> screen.Answer:
    """Report an upgrade: the verdict, what needs thought, then the rest.

    Args:
        dry_run: Nothing was written.
        about: What changed in the vendored code; None where that was not asked for or cannot be told.
    """
    data = _collect_data(root, found, about, dry_run)
    if not found.changes_anything:
        return screen.Answer(
            data, [f"up to date: {describe(found.new.options)}"], notes=_list_next_steps(found, dry_run)
        )
    head = _write_head(found, dry_run)
    problems = [f"  to change {item.file}:{item.line}  ({item.name}: {item.problem})" for item in found.problems]
    sections = [
        *_select_by_verdict(found, list(_FIRST)),
        screen.Section(problems, "your code"),
        screen.Section(_describe_settings(found), "your settings"),
        *_select_by_verdict(found, list(_REST)),
    ]
    if about is not None:
        head.append(f"verl's code that you use: {releases.count_kinds(about)}")
        sections += [replace(item, rest=True) for item in releases.write_sections(about)]
    return screen.Answer(
        data,
        head,
        sections,
        more=["-v shows verl's code"] if about is not None else [],
        notes=_list_next_steps(found, dry_run),
        code=int(found.counts["conflict"] > 0 and not dry_run),
    )


def _write_head(found: Upgrade, dry_run: bool) -> list[str]:
    from extractor.usecases.upgrade.choices import find_gone
    from extractor.values import releases

    counts, moved = dict(found.counts), len(found.left_places)
    counts["delete"] -= moved
    told = [f"{counts[verdict]} {said}" for verdict, said in (_FIRST | _REST).items() if counts[verdict]]
    told += [f"{moved} of them moved"] if moved else []
    told = told if counts["conflict"] else ["no conflicts", *told]
    head = [f"{found.title}: {', '.join(told)}{' (nothing was written)' if dry_run else ''}"]
    if found.new.options.methods:
        names = ", ".join(name.partition(":")[2] for name in found.new.options.methods)
        head.append(f"methods that are here because your code uses or changes them: {names}")
    if found.former_features.used:
        used = ", ".join(f"{name} ({path})" for name, path in sorted(found.former_features.used.items()))
        head.append(f"now optional features, kept because your files use them: {used}")
    if gone := find_gone(found.old.options, releases.load(found.new.options.verl)):
        head.append(f"features that vextract no longer has: {', '.join(gone)}")
    # One that nothing uses may still come along with one that needs it.
    if left := [name for name in found.former_features.unused if name not in found.new.options.features]:
        head.append(
            f"now optional features, left out as unused (`vextract add {left[0]}` brings one back): {', '.join(left)}"
        )
    return head


def _select_by_verdict(found: Upgrade, verdicts: Sequence[str]) -> list[screen.Section]:
    """Return the files by verdict, without those that are only counted."""
    lines: dict[str, list[str]] = {verdict: [] for verdict in verdicts}
    for action in found.plan.actions:
        verdict, reason = action.verdict.value, action.reason.value
        counted = verdict == "keep" and not action.note and action.reason.name != "EDITED"
        if verdict in lines and not counted and action not in found.left_places:
            why = f"{reason}; {action.note}" if action.note else reason
            lines[verdict].append(f"{verdict:8}  {action.path}  ({why})")
    return [screen.Section(told) for told in lines.values()]


def _describe_settings(found: Upgrade) -> list[str]:
    """Say what became of the owner's settings."""
    lines = []
    for item in found.settings.moved:
        where = f"now in {item.new_file}" if item.new_file != item.file else "refers to keys by their new names"
        where = f"now {item.new_key}" if item.new_key != item.key else where
        lines.append(f"  moved     {item.key}: {item.value}  ({where})")
    for lost in found.settings.lost:
        lines.append(f"  lost      {lost.key}: {lost.value}  ({found.labels.theirs} has no such setting)")
    return [*lines, *(f"  to change {key.file}:{key.line}  ({key.problem})" for key in found.stale)]


def _list_next_steps(found: Upgrade, dry_run: bool) -> list[str]:
    """Return one line per thing a user should know or do."""
    lines = []
    if dry_run and found.git_error:
        lines.append(
            f"Git does not say whether all is committed ({found.git_error}): see `git status`, or --allow-dirty"
        )
    if dry_run and found.uncommitted:
        lines.append(f"{found.uncommitted[0]} is not committed: commit first, or pass --allow-dirty")
    if found.counts["conflict"] and not dry_run:
        lines.append(RESOLVE)
    if found.counts["orphan"]:
        lines.append("orphans lie below orphaned/, each with a note")
    if found.stale:
        lines.append("delete the keys listed as `to change` under `your settings`: they no longer exist, or count")
    if any(action.reason.name == "REMOVED" and action.note for action in found.plan.actions):
        lines.append("files that you removed stay removed; `vextract sync` restores those of verl, `--removed` all")
    if found.old.source_sha256 != found.new.source_sha256 and found.old.options.verl == found.new.options.verl:
        lines.append(
            f"the project was made from another {found.old.source_kind} of this release than the one used now;"
            " --from names it"
        )
    if found.changes_requirements:
        would = "would change: `make setup` would install it" if dry_run else "has changed: run `make setup`"
        lines.append(f"what the project requires {would}")
    return lines


def _collect_data(root: Path, found: Upgrade, about: Changes | None, dry_run: bool) -> dict[str, object]:
    verdicts = [
        output.pick(
            action,
            "path verdict kind reason note",
            writes=[action.path] * (action.data is not None) + [path for path, _ in action.side_files],
        )
        for action in found.plan.actions
    ]
    return {
        "path": root,
        "written": found.changes_anything and not dry_run,
        **output.pick(found, "setup=changes_requirements counts hooks=problems uncommitted"),
        "from": found.old.options,
        "to": found.new.options,
        "verdicts": verdicts,
        "settings": output.pick(found.settings, "moved lost", to_change=found.stale),
        "changes": about,
    }
