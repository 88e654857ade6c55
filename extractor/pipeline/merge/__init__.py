"""Three-way merges. Parsers are imported in `files` only, so that marker checks stay light."""

from extractor.pipeline.merge.lines import (
    Labels,
    Merged,
    first_conflict,
    left_markers,
    marker_lines,
    mergeable,
    three_way,
)

__all__ = ["Labels", "Merged", "first_conflict", "left_markers", "marker_lines", "mergeable", "three_way"]
