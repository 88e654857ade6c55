"""`vextract diff`: show the owner's edits."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from extractor.cli import output, pager, screen, unfinished
from extractor.cli.options import Json, Verbose

if TYPE_CHECKING:
    from extractor.usecases.diff import FileDiff

_WIDEST_BAR = 40
_NARROWEST_BAR = 8
_ANY_WIDTH = 1000


def command(
    paths: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Argument(metavar="PATH", help="The project, or files and directories in it."),
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Count the lines only.")] = False,
    no_pager: Annotated[bool, typer.Option("--no-pager", help="Never start a pager.")] = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Show your edits against what was emitted.

    The diff is in the format of `patch -p1` and `git apply`.
    """
    from extractor.project import base, lock
    from extractor.usecases.diff import edits

    root, only = _split(paths or [])
    unfinished.warn(root)
    locked = lock.read(root)
    found = edits(root, locked, base.read(root, locked), only)
    if json:
        output.data_json([_report(item) for item in found])
    elif stat:
        _show_stat(found, verbose)
    elif found:
        pager.show_diff(b"".join(item.text for item in found), page=not no_pager)
    else:
        output.note("no edits")


def _split(paths: list[Path]) -> tuple[Path, list[str]]:
    """Return the project of the paths, and the paths relative to it."""
    from extractor.project import location
    from extractor.values.errors import UsageError

    first = paths[0] if paths else Path()
    start = first if first.is_dir() else first.parent
    # A file that is missing, with its directory, belongs to where the command runs.
    root = location.find(start if start.is_dir() else Path())
    only = []
    for path in paths:
        absolute = Path(os.path.abspath(path))  # noqa: PTH100 - a link in the project is named by its own path
        for name in (absolute, absolute.parent.resolve() / absolute.name):
            if name.is_relative_to(root):
                only.append(name.relative_to(root).as_posix())
                break
        else:
            if path.resolve() != root:
                raise UsageError(f"{path}: not in the project {root}", hint="name files of one project")
            only.append(".")
    return root, only


def _show_stat(found: "tuple[FileDiff, ...]", verbose: bool) -> None:
    width = max((len(item.path) for item in found), default=0)
    most = max((item.added + item.removed for item in found), default=0)
    # What a terminal has beside the path, the number and what stands between them.
    widest = min(_WIDEST_BAR, max((output.width_of(sys.stdout) or _ANY_WIDTH) - width - 11, _NARROWEST_BAR))
    scale = min(1.0, widest / most) if most else 1.0
    lines = []
    for item in found:
        bar = "+" * _length(item.added, scale) + "-" * _length(item.removed, scale)
        lines.append(f" {item.path:{width}} | {item.added + item.removed:4} {bar}".rstrip())
    added, removed = sum(item.added for item in found), sum(item.removed for item in found)
    files = "1 file" if len(found) == 1 else f"{len(found)} files"
    head = [f" {files} edited, {added} lines added, {removed} removed"]
    screen.show(head, [screen.Section(lines, prefix=" ")], verbose=verbose)


def _length(lines: int, scale: float) -> int:
    return max(1, round(lines * scale)) if lines else 0


def _report(item: "FileDiff") -> dict[str, object]:
    return {
        "path": item.path,
        "added": item.added,
        "removed": item.removed,
        "diff": item.text.decode("utf-8", errors="replace"),
    }
