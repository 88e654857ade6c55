"""Rewrite upstream's text into vendored text: libcst edits, one transform per file."""

from extractor.pipeline.rewrite.changes import dropped_methods, named_fixes
from extractor.pipeline.rewrite.header import former_changes
from extractor.pipeline.rewrite.module import Emitted, rewrite_module

__all__ = ["Emitted", "dropped_methods", "former_changes", "named_fixes", "rewrite_module"]
