"""Three-way merges. Parsers are imported in `files` only, so that marker checks stay light."""

from extractor.pipeline.merge.lines import (
    Labels,
    Merged,
    find_first_conflict,
    find_left_markers,
    find_marker_lines,
    is_mergeable,
    merge_lines,
)

__all__ = [
    "Labels",
    "Merged",
    "find_first_conflict",
    "find_left_markers",
    "find_marker_lines",
    "is_mergeable",
    "merge_lines",
]
