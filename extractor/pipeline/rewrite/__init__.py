"""Rewrite upstream's text into vendored text, one transform per file."""

from extractor.pipeline.rewrite.changes import read_dropped_methods, read_named_fixes
from extractor.pipeline.rewrite.header import read_former_changes
from extractor.pipeline.rewrite.module import Emitted, rewrite_module

__all__ = ["Emitted", "read_dropped_methods", "read_former_changes", "read_named_fixes", "rewrite_module"]
