"""Describe an upgrade as text and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extractor.cli import changes, output, screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extractor.pipeline.plan import Action, Plan
    from extractor.project.lock import Lock
    from extractor.usecases.changes import Changes
    from extractor.usecases.upgrade import Upgrade
    from extractor.usecases.upgrade.settings import Moved

_DONE = {
    "add": "added",
    "update": "updated",
    "merge": "merged",
    "conflict": "in conflict",
    "delete": "deleted",
    "orphan": "orphaned",
    "keep": "kept",
}
# What asks for thought, and what does not.
_FIRST = ("conflict", "orphan", "merge")
_REST = ("delete", "update", "add", "keep")
RESOLVE = (
    "resolve the conflicts (`vextract status` lists them), then run `vextract upgrade --continue`;"
    " `vextract upgrade --abort` undoes the upgrade"
)


def show(found: Upgrade, dry_run: bool, about: Changes | None, *, diff: bool, verbose: bool) -> None:
    """Print the verdict, what needs thought, then the rest.

    Args:
        found: The upgrade.
        dry_run: Nothing was written.
        about: What changed in the vendored code; None where that was not asked for or cannot be told.
        diff: Print how upstream's text differs.
        verbose: Print everything.
    """
    steps = next_steps(found, dry_run)
    if not found.changes_anything:
        output.data(f"up to date: {_options(found)}")
    else:
        head = [f"{found.title}: {_summary(found)}{' (nothing was written)' if dry_run else ''}"]
        if found.new.options.methods:
            names = ", ".join(name.partition(":")[2] for name in found.new.options.methods)
            head.append(f"methods that are here because your code uses or changes them: {names}")
        if found.parts.used:
            told = ", ".join(f"{name} ({path})" for name, path in sorted(found.parts.used.items()))
            head.append(f"features now, and here because you use them: {told}")
        # One that nothing uses may still come along with one that needs it.
        if left := [name for name in found.parts.unused if name not in found.new.options.features]:
            head.append(f"features now, and left out (`vextract add {left[0]}` brings it back): {', '.join(left)}")
        sections = [*_verdicts(found, _FIRST), *_settings(found), *_verdicts(found, _REST)]
        if about is not None:
            head.append(f"verl's code that you use: {changes.counted(about)}{'' if verbose else ' (-v shows it)'}")
            if verbose:
                sections += changes.sections(about, about.symbols, diff, verbose)
        screen.show(head, sections, verbose=verbose, below=screen.height(steps))
    for text in steps:
        output.note(text)


def _summary(found: Upgrade) -> str:
    counts = counts_of(found.plan)
    moved = sum(map(_has_moved, found.plan.actions))
    counts["delete"] -= moved
    told = [f"{counts[verdict]} {_DONE[verdict]}" for verdict in (*_FIRST, *_REST) if counts[verdict]]
    told += [f"{moved} of them moved"] if moved else []
    return ", ".join(told if counts["conflict"] else ["no conflicts", *told])


def _verdicts(found: Upgrade, verdicts: Sequence[str]) -> list[screen.Section]:
    told = [action for action in found.plan.actions if _worth_saying(action)]
    return [
        screen.Section([_line(action) for action in told if action.verdict.value == verdict], prefix=f"{verdict:8}  ")
        for verdict in verdicts
    ]


def _settings(found: Upgrade) -> list[screen.Section]:
    """Return what became of the owner's settings."""
    lines = [f"  moved     {item.key}: {item.value}  ({_where(item)})" for item in found.settings.moved]
    lines += [
        f"  lost      {item.key}: {item.value}  ({found.labels.theirs} has no such setting)"
        for item in found.settings.lost
    ]
    for key in found.stale:
        if key.unread:
            lines.append(
                f"  to change {key.file}:{key.line}  ({key.key} is read no more: the code that did was parked)"
            )
            continue
        now = f"; now {key.renamed_to}" if key.renamed_to else ""
        what = f"refers to {key.key}, which" if key.reference else key.key
        lines.append(f"  to change {key.file}:{key.line}  ({what} no longer exists{now})")
    return [screen.Section(lines, "your settings")]


def _where(item: Moved) -> str:
    if item.new_key != item.key:
        return f"now {item.new_key}"
    return f"now in {item.new_file}" if item.new_file != item.file else "refers to keys by their new names"


def _worth_saying(action: Action) -> bool:
    """Return False for files that are only counted."""
    if _has_moved(action):
        return False
    return action.verdict.value != "keep" or bool(action.note) or action.reason.value == "edited"


def _has_moved(action: Action) -> bool:
    """Return True for the former place of a moved file."""
    return action.verdict.value == "delete" and action.reason.value == "moved"


def _line(action: Action) -> str:
    reason = f"{action.reason.value}; {action.note}" if action.note else action.reason.value
    return f"{action.verdict.value:8}  {action.path}  ({reason})"


def counts_of(plan: Plan) -> dict[str, int]:
    """Return verdict -> how many files have it."""
    return {verdict: sum(action.verdict.value == verdict for action in plan.actions) for verdict in _DONE}


def _options(found: Upgrade) -> str:
    options = found.new.options
    features = f" with {', '.join(options.features)}" if options.features else ""
    return f"verl {options.verl}, engine {options.engine}, algorithm {options.algorithm}{features}"


def next_steps(found: Upgrade, dry_run: bool) -> list[str]:
    """Return what a user should know or do now, a line each."""
    counts = counts_of(found.plan)
    lines = []
    if dry_run and found.unanswered:
        lines.append(
            f"Git does not say whether all is committed ({found.unanswered}): see `git status`, or --allow-dirty"
        )
    if dry_run and found.uncommitted:
        lines.append(f"{found.uncommitted[0]} is not committed: commit first, or pass --allow-dirty")
    if counts["conflict"] and not dry_run:
        lines.append(RESOLVE)
    if counts["orphan"]:
        lines.append("orphans lie below orphaned/, each with a note")
    if found.stale:
        lines.append("what is to change stands in config files of yours, and has no other name to take")
    if any(action.reason.value == "removed by its owner" and action.note for action in found.plan.actions):
        lines.append("files that you removed stay removed; `vextract sync` restores those of verl, `--removed` all")
    if found.old.source_sha256 != found.new.source_sha256 and found.old.options.verl == found.new.options.verl:
        lines.append(f"the project was made from a {found.old.source_kind} of its own; this takes verl from elsewhere")
    if found.changes_what_is_installed:
        lines.append(
            "what the project requires would change: `make setup` would install it"
            if dry_run
            else "what the project requires has changed: run `make setup`"
        )
    return lines


def as_json(root: Path, found: Upgrade, written: bool) -> dict[str, object]:
    """Return the whole report as JSON's types."""
    from dataclasses import asdict

    return {
        "path": str(root),
        "written": written,
        "up_to_date": not found.changes_anything,
        "setup": found.changes_what_is_installed,
        "from": _side(found.old),
        "to": _side(found.new),
        "verdicts": [
            {
                "path": action.path,
                "verdict": action.verdict.value,
                "kind": action.kind.value,
                "reason": action.reason.value,
                "note": action.note or None,
                "writes": [
                    *([action.path] if action.data is not None else []),
                    *(path for path, _ in action.beside),
                ],
            }
            for action in found.plan.actions
        ],
        "counts": counts_of(found.plan),
        "settings": {
            "moved": [asdict(item) for item in found.settings.moved],
            "lost": [asdict(item) for item in found.settings.lost],
            "to_change": [asdict(item) for item in found.stale],
        },
        "uncommitted": list(found.uncommitted),
        "warnings": list(found.generated.warnings),
    }


def _side(lock: Lock) -> dict[str, object]:
    options = lock.options
    return {
        "verl": options.verl,
        "engine": options.engine,
        "algorithm": options.algorithm,
        "features": list(options.features),
        "methods": list(options.methods),
        "vextract": lock.vextract,
    }
