"""From upstream's text to the vendored text: libcst edits on the kept files, one transform per file."""

from extractor.pipeline.rewrite.header import changes_in, dropped_methods
from extractor.pipeline.rewrite.module import Emitted, rewrite_module

__all__ = ["Emitted", "changes_in", "dropped_methods", "rewrite_module"]
