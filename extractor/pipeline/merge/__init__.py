"""Merge files three ways; only `files` imports parsers."""

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
