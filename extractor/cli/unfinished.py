"""Refuse commands while the conflicts of an upgrade are open."""

from __future__ import annotations

from pathlib import Path

from extractor.cli import output

_MOST = 3
RESOLVE = (
    "resolve them (`vextract status` lists them), then run `vextract upgrade --continue`;"
    " or go back with `vextract upgrade --abort`"
)


def refuse(root: Path) -> None:
    """Refuse to go on while conflicts are open.

    Raises:
        CheckFailed: conflicts are open; the message names the files, the hint says how to go on.
    """
    from extractor.values.errors import CheckFailed

    if text := _describe_open(root):
        raise CheckFailed(text, hint=RESOLVE)


def warn(root: Path) -> None:
    """Warn, before an answer that holds nevertheless."""
    if text := _describe_open(root):
        output.warning(f"{text}; {RESOLVE}")


def _describe_open(root: Path) -> str:
    """Return the open conflicts; empty without one."""
    from extractor.project import journal

    entry = journal.read(root)
    if entry is None or journal.phase(root, entry) is not journal.Phase.CONFLICTS:
        return ""
    from extractor.usecases.upgrade.unresolved import unresolved

    left = unresolved(root, entry)
    if not left:
        output.note(f"the conflicts of {entry.title} are resolved: `vextract upgrade --continue` ends the upgrade")
        return ""
    more = f" and {len(left) - _MOST} more" if len(left) > _MOST else ""
    return f"{entry.title} has open conflicts: {'; '.join(map(str, left[:_MOST]))}{more}"
