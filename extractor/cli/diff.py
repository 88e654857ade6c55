"""`vextract diff`: show the owner's edits."""

import os
import sys
from pathlib import Path
from typing import Annotated

from extractor.cli import output, unfinished
from extractor.cli.options import Json, argument
from extractor.values.errors import UsageError

_CODES = (("+++", "1"), ("---", "1"), ("@@", "36"), ("+", "32"), ("-", "31"), ("\\", "2"))


def command(
    paths: Annotated[list[Path] | None, argument("PATH", "The project, or files and directories in it.")] = None,
    json: Json = False,
) -> None:
    """Show your edits against what was emitted.

    The diff is in the format of `patch -p1` and `git apply`.
    """
    from extractor.project import base, lock
    from extractor.usecases.diff import list_edits

    root, only = _split(paths or [])
    unfinished.warn(root)
    locked = lock.read(root)
    found = list_edits(root, locked, base.read(root, locked), only)
    if json:
        output.data_json(
            [output.pick(item, "path added removed", diff=item.text.decode(errors="replace")) for item in found]
        )
    elif found:
        _show_diff(b"".join(item.text for item in found))
    else:
        output.note("no edits")


def _split(paths: list[Path]) -> tuple[Path, list[str]]:
    """Return the project of the paths, and paths relative to it."""
    from extractor.project import location

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


def _show_diff(diff: bytes) -> None:
    """Print a diff: raw, or escaped and coloured on a terminal."""
    if not sys.stdout.isatty():
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(diff)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            output.silence_flush()
        return
    text = diff.decode("utf-8", errors="replace").replace("\r\n", "\n").removesuffix("\n")
    lines = output.make_plain(text).split("\n")
    if output.is_fancy(sys.stdout):
        codes = (next((code for start, code in _CODES if line.startswith(start)), "0") for line in lines)
        lines = [f"\x1b[{code}m{line}\x1b[0m" for code, line in zip(codes, lines, strict=True)]
    output.data("\n".join(lines), styled=True)
