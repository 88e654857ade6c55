"""Edits to vendored files, as far as they can be carried over to verl's own source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extractor.pipeline import merge
from extractor.pipeline.merge.files import merge_file
from extractor.pipeline.source import Source
from extractor.project.lock import Lock
from extractor.usecases import diff
from extractor.usecases.diff import FileDiff
from extractor.values.tree import FileKind


@dataclass(frozen=True)
class UpstreamEdit:
    """The edits of one vendored file.

    Attributes:
        path: The project's.
        upstream_path: verl's.
        applies: Whether they fit verl's file without a conflict.
        why: Why not.
        patch: Against verl's file; empty where they do not apply.
        edit: Against what was emitted.
    """

    path: str
    upstream_path: str
    applies: bool
    why: str
    patch: bytes = field(repr=False)
    edit: FileDiff = field(repr=False)


def upstream_edits(
    found: tuple[FileDiff, ...], lock: Lock, base: Mapping[str, bytes], ours: Mapping[str, bytes], target: Source
) -> tuple[UpstreamEdit, ...]:
    """Carry edits over: a three-way merge of verl's file with the edit, the emitted file being what both come from.

    Args:
        found: Edited files.
        lock: The project's.
        base: The bytes as emitted.
        ours: The bytes as they are.
        target: verl's source.
    """
    result = []
    for edit in found:
        entry = lock.file(edit.path)
        if entry is None or entry.kind is not FileKind.VENDORED or entry.upstream_path is None:
            continue
        result.append(_one(edit, entry.upstream_path, base[edit.path], ours.get(edit.path), target))
    return tuple(result)


def _one(edit: FileDiff, upstream_path: str, base: bytes, ours: bytes | None, target: Source) -> UpstreamEdit:
    theirs = target.files.get(upstream_path)
    if theirs is None:
        return UpstreamEdit(edit.path, upstream_path, False, f"verl {target.release} has no such file", b"", edit)
    if ours is None:
        return UpstreamEdit(edit.path, upstream_path, False, "the file was removed from the project", b"", edit)
    if not merge.mergeable(base, ours, theirs):
        return UpstreamEdit(edit.path, upstream_path, False, "not text", b"", edit)
    labels = merge.Labels("project", "emitted", f"verl {target.release}")
    merged = merge_file(upstream_path, base, ours, theirs, labels)
    if merged.conflicts:
        why = f"changes lines that verl's file has otherwise, in {merged.conflicts} places"
        return UpstreamEdit(edit.path, upstream_path, False, why, b"", edit)
    return UpstreamEdit(edit.path, upstream_path, True, "", diff.unified(upstream_path, theirs, merged.data), edit)
