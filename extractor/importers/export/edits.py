"""Merge edits of vendored files into verl's own source."""

from dataclasses import dataclass, field
from pathlib import Path

from extractor.pipeline import merge
from extractor.pipeline.merge.files import merge_file
from extractor.pipeline.source import Source
from extractor.project import base as emitted_base
from extractor.project.lock import Lock
from extractor.usecases import diff
from extractor.values import readers
from extractor.values.tree import FileKind


@dataclass(frozen=True)
class UpstreamEdit:
    """The edits of one vendored file.

    Attributes:
        path: The project's.
        upstream_path: verl's.
        why: Why they do not fit verl's file; empty where they do.
        patch: Against verl's file; empty where they do not apply.
        edit: Against what was emitted.
    """

    path: str
    upstream_path: str
    why: str
    patch: bytes = field(repr=False)
    edit: bytes = field(repr=False)

    @property
    def applies(self) -> bool:
        """Tell whether the edits fit verl's file without a conflict."""
        return not self.why


def merge_edits(project: Path, lock: Lock, source: Source) -> tuple[UpstreamEdit, ...]:
    """Merge each vendored file's edits into verl's original file."""
    base = emitted_base.read(project, lock)
    found = []
    for path, edit in diff.list_edits(project, lock, base).items():
        entry = lock.file(path)
        if entry is not None and entry.kind is FileKind.VENDORED and entry.upstream_path is not None:
            ours = readers.read_bytes(project / path) if (project / path).is_file() else None
            why, patch = _try_patch(entry.upstream_path, base[path], ours, source)
            found.append(UpstreamEdit(path, entry.upstream_path, why, patch, edit))
    return tuple(found)


def _try_patch(upstream_path: str, base: bytes, ours: bytes | None, source: Source) -> tuple[str, bytes]:
    """Return why an edit does not fit, otherwise its patch."""
    theirs = source.files.get(upstream_path)
    if theirs is None:
        return f"verl {source.release} has no such file", b""
    if ours is None:
        return "the file was removed from the project", b""
    if not merge.is_mergeable(base, ours, theirs):
        return "not text", b""
    labels = merge.Labels("project", "emitted", f"verl {source.release}")
    merged = merge_file(upstream_path, base, ours, theirs, labels)
    if merged.conflicts:
        return f"changes lines that verl's file has otherwise, in {merged.conflicts} places", b""
    return "", diff.write_unified_diff(upstream_path, theirs, merged.data)
