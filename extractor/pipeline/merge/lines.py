"""Merge lines three ways, by `git merge-file`.

Git is where this merge is maintained and where its users know it from; the pure-Python library for it is under the GPL.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from extractor.values.errors import UsageError

_MARKS = (b"<<<<<<< ", b"||||||| ", b">>>>>>> ")
_MIDDLE = b"======="
_UNKNOWN_OPTION = 129
_MOST_CONFLICTS = 127
# Git looks for NUL in so many bytes to tell what it does not merge.
_LOOKED_AT = 8000


@dataclass(frozen=True)
class Labels:
    """Says what the markers of a conflict call the three sides."""

    ours: str
    base: str
    theirs: str


@dataclass(frozen=True)
class Merged:
    """The result of a merge.

    Attributes:
        data: The merged bytes, with markers where both sides changed the same lines.
        conflicts: How many places have markers; git counts up to 127.
    """

    data: bytes
    conflicts: int


def is_mergeable(*sides: bytes) -> bool:
    """Return False if a side is binary, as git tells it."""
    return not any(b"\0" in side[:_LOOKED_AT] for side in sides)


def merge_lines(base: bytes, ours: bytes, theirs: bytes, labels: Labels) -> Merged:
    """Merge texts three ways; all must be `is_mergeable`.

    A file that an editor turned to CRLF as a whole is merged line by line all the same, and keeps its line ends.

    Raises:
        UsageError: git is not installed, or cannot merge.
    """
    if ours in (base, theirs):
        return Merged(theirs, 0)
    if theirs == base:
        return Merged(ours, 0)
    if has_turned_to_crlf(ours, base, theirs):
        base, theirs = base.replace(b"\n", b"\r\n"), theirs.replace(b"\n", b"\r\n")
    # Before 2.35 git has no zdiff3: the same merge, whose conflicts hold more than they need to.
    for style in ("--zdiff3", "--diff3"):
        done = _merge_file(style, base, ours, theirs, labels)
        if done.returncode != _UNKNOWN_OPTION:
            break
    if not 0 <= done.returncode <= _MOST_CONFLICTS:
        said = done.stderr.decode(errors="replace").strip()
        raise UsageError(f"git merge-file failed: {said}", hint="check that `git merge-file -h` works")
    return Merged(done.stdout, done.returncode)


def find_marker_lines(data: bytes) -> list[tuple[int, bytes]]:
    """Return numbers and text of lines that look like conflict markers."""
    if not any(mark in data for mark in (*_MARKS, _MIDDLE)):
        return []
    lines = enumerate(data.split(b"\n"), 1)
    return [(number, line) for number, line in ((n, raw.rstrip(b"\r")) for n, raw in lines) if _is_marker(line)]


def find_left_markers(data: bytes, sides: Iterable[bytes]) -> list[int]:
    """Return the lines with markers that no side had before."""
    found = find_marker_lines(data)
    if not found:
        return []
    known = {line for side in sides for _, line in find_marker_lines(side)}
    return [number for number, line in found if line not in known]


def find_first_conflict(data: bytes, base: bytes = b"") -> int:
    """Return the first new conflict marker's line number, or 0.

    A line of equals signs may be a heading.
    """
    known = {line for _, line in find_marker_lines(base)}
    return next((number for number, line in find_marker_lines(data) if line not in known and line != _MIDDLE), 0)


def _is_marker(line: bytes) -> bool:
    return line == _MIDDLE or line.startswith(_MARKS)


def has_turned_to_crlf(ours: bytes, base: bytes, theirs: bytes) -> bool:
    """Tell whether only our side ends all lines with CRLF."""
    return ours.count(b"\r\n") == ours.count(b"\n") > 0 and b"\r" not in base + theirs


def _merge_file(
    style: str, base: bytes, ours: bytes, theirs: bytes, labels: Labels
) -> subprocess.CompletedProcess[bytes]:
    with tempfile.TemporaryDirectory(prefix="vextract-merge-") as name:
        folder = Path(name)
        arguments = []
        for side, data, label in (
            ("ours", ours, labels.ours),
            ("base", base, labels.base),
            ("theirs", theirs, labels.theirs),
        ):
            (folder / side).write_bytes(data)
            arguments += ["-L", label]
        command = ["git", "merge-file", "-p", "-q", style, *arguments, "ours", "base", "theirs"]
        try:
            return subprocess.run(command, cwd=folder, env=_make_environment(folder), capture_output=True, check=False)
        except OSError as error:
            raise UsageError(
                f"merging your edits needs git, which cannot be run: {error.strerror}",
                hint="install git; the project was not changed",
            ) from None


def _make_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which Git ignores repositories and settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    alone = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    return {**kept, **alone, "LC_ALL": "C"}
