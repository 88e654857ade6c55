"""Open a project; refuse commands while upgrade conflicts are open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extractor.cli import output
from extractor.values.errors import CheckFailed

if TYPE_CHECKING:
    from extractor.project.lock import Lock

_MOST = 3
RESOLVE = (
    "resolve the conflicts (`vextract status` lists them), then run `vextract upgrade --continue`;"
    " or go back with `vextract upgrade --abort`"
)


def open_project(path: Path, *, allow_conflicts: bool = False) -> tuple[Path, Lock]:
    """Return the project directory around a path, and its lock.

    Args:
        allow_conflicts: Warn about open conflicts instead of refusing.

    Raises:
        UsageError: there is no project.
        CheckFailed: conflicts are open; the message names the files, the hint says how to go on.
    """
    from extractor.project import location, lock

    root = location.find(path)
    if text := _describe_open(root):
        if not allow_conflicts:
            raise CheckFailed(text, hint=RESOLVE)
        output.print_warning(f"{text}; {RESOLVE}")
    return root, lock.read(root)


def _describe_open(root: Path) -> str:
    """Return the open conflicts; empty without one."""
    from extractor.project import journal

    pending = journal.read(root)
    if pending is None or journal.read_phase(root, pending) is not journal.Phase.CONFLICTS:
        return ""
    from extractor.usecases.upgrade.unresolved import find_unresolved

    left = find_unresolved(root, pending)
    if not left:
        output.print_note(
            f"the conflicts of {pending.title} are resolved: `vextract upgrade --continue` ends the upgrade"
        )
        return ""
    more = f" and {len(left) - _MOST} more" if len(left) > _MOST else ""
    return f"{pending.title} has open conflicts: {'; '.join(left[:_MOST])}{more}"
