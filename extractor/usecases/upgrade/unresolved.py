"""Find unresolved conflicts."""

import io
import zipfile
from pathlib import Path

from extractor.pipeline import merge
from extractor.project.journal import Journal
from extractor.values import readers


def find_unresolved(project: Path, journal: Journal) -> list[str]:
    """Return what is left to do, a line each: a file's first marker, or the new version beside it."""
    left = []
    for conflict in journal.conflicts:
        if conflict.beside is None:
            lines = _find_marker_lines(project, journal, conflict.path)
            left += [f"{conflict.path}:{line}: a marker is left" for line in lines[:1]]
        elif (project / conflict.beside).exists():
            left.append(f"{conflict.path}: the new version lies in {conflict.beside}")
    return left


def describe_doubtful_resolutions(project: Path, journal: Journal) -> list[str]:
    """Return resolved files that are missing or no Python."""
    doubts = []
    for path in dict.fromkeys(conflict.path for conflict in journal.conflicts):
        try:
            data = readers.read_bytes(project / path)
        except OSError:
            doubts.append(f"{path} is not there: that counts as resolved, and the upgrade ends without it")
            continue
        if path.endswith(".py"):
            try:
                readers.parse_python(data)
            except SyntaxError as error:
                doubts.append(f"{path}:{error.lineno}: no Python: {error.msg}")
    return doubts


def _find_marker_lines(project: Path, journal: Journal, path: str) -> list[int]:
    try:
        data = readers.read_bytes(project / path)
    except OSError:
        # Its owner has removed it, and that resolves it as well.
        return []
    change, new_base = journal.change(path), journal.changes[-2].new
    sides = [] if change is None or change.old is None else [change.old]
    assert new_base is not None
    with zipfile.ZipFile(io.BytesIO(new_base)) as archive:
        sides += [archive.read(path)] if path in archive.namelist() else []
    return merge.find_left_markers(data, sides)
