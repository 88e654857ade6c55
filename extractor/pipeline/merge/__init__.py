"""Merge files three ways; only `files` imports parsers."""

from extractor.pipeline.merge.lines import Labels as Labels
from extractor.pipeline.merge.lines import Merged as Merged
from extractor.pipeline.merge.lines import find_first_conflict as find_first_conflict
from extractor.pipeline.merge.lines import find_left_markers as find_left_markers
from extractor.pipeline.merge.lines import find_marker_lines as find_marker_lines
from extractor.pipeline.merge.lines import is_mergeable as is_mergeable
from extractor.pipeline.merge.lines import merge_lines as merge_lines
