"""From upstream's text to the vendored text: libcst edits on the kept files, one transform per file."""

from extractor.pipeline.rewrite.changes import dropped_methods, named_fixes
from extractor.pipeline.rewrite.header import former_changes
from extractor.pipeline.rewrite.module import Emitted, rewrite_module

__all__ = ["Emitted", "dropped_methods", "former_changes", "named_fixes", "rewrite_module"]
