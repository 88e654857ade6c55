"""Three-way merges. What needs a parser is in `files`, so that what only looks for markers stays light."""

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
