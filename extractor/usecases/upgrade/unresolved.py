"""Find unresolved conflicts."""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

from extractor.pipeline import merge
from extractor.project.journal import Journal
from extractor.values import readers
from extractor.values.errors import CheckFailed


@dataclass(frozen=True)
class UnresolvedConflict:
    """One thing that is left to do.

    Attributes:
        path: The file that is in conflict.
        line: Where a marker is left in it; 0 where it has none.
        beside: The new version that lies beside it; None where it is between markers.
    """

    path: str
    line: int = 0
    beside: str | None = None

    def __str__(self) -> str:
        if self.beside is not None:
            return f"{self.path}: the new version lies in {self.beside}"
        return f"{self.path}:{self.line}: a marker is left"


def find_unresolved(project: Path, entry: Journal) -> tuple[UnresolvedConflict, ...]:
    """Return each file's first marker, or the new version beside it."""
    found = []
    for conflict in entry.conflicts:
        if conflict.beside is not None:
            if (project / conflict.beside).exists():
                found.append(UnresolvedConflict(conflict.path, beside=conflict.beside))
            continue
        lines = _find_marker_lines(project, entry, conflict.path)
        if lines:
            found.append(UnresolvedConflict(conflict.path, lines[0]))
    return tuple(found)


def refuse_unresolved(project: Path, entry: Journal) -> None:
    """Refuse to end an upgrade whose conflicts are not resolved.

    Raises:
        CheckFailed: naming each file, and the line of its first marker.
    """
    left = find_unresolved(project, entry)
    if left:
        beside = any(item.beside for item in left)
        raise CheckFailed(
            "; ".join(map(str, left)),
            hint=(
                "take from it what you need and remove it, then run `vextract upgrade --continue`"
                if beside
                else "edit the file and remove the markers, then run `vextract upgrade --continue`"
            ),
        )


def describe_doubtful_resolutions(project: Path, entry: Journal) -> list[str]:
    """Return resolved files that are missing or no Python."""
    found = []
    for path in dict.fromkeys(conflict.path for conflict in entry.conflicts):
        try:
            data = readers.read_bytes(project / path)
        except OSError:
            found.append(f"{path} is not there: that counts as resolved, and the upgrade ends without it")
            continue
        if path.endswith(".py"):
            try:
                readers.parse_python(data)
            except SyntaxError as error:
                found.append(f"{path}:{error.lineno}: no Python: {error.msg}")
    return found


def _find_marker_lines(project: Path, entry: Journal, path: str) -> list[int]:
    try:
        data = readers.read_bytes(project / path)
    except OSError:
        # Its owner has removed it, and that resolves it as well.
        return []
    change = entry.change(path)
    base = [] if change is None or change.old is None else [change.old]
    return merge.find_left_markers(data, [*base, *_read_emitted(entry, path)])


def _read_emitted(entry: Journal, path: str) -> list[bytes]:
    """Return the new side of a conflict, from the new base."""
    data = entry.changes[-2].new
    assert data is not None
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [archive.read(path)] if path in archive.namelist() else []
