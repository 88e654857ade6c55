"""Rewrite upstream's text into vendored text, one transform per file."""

from extractor.pipeline.rewrite.changes import read_dropped_methods as read_dropped_methods
from extractor.pipeline.rewrite.changes import read_named_fixes as read_named_fixes
from extractor.pipeline.rewrite.header import read_former_changes as read_former_changes
from extractor.pipeline.rewrite.module import Emitted as Emitted
from extractor.pipeline.rewrite.module import rewrite_module as rewrite_module
from extractor.pipeline.rewrite.problems import CannotRewrite as CannotRewrite
