"""Export a project to verl: launch script, hooks and adapters."""

from extractor.importers.config.keys import Key, KeyStatus
from extractor.importers.export.bundle import Export, export, write

__all__ = ["Export", "Key", "KeyStatus", "export", "write"]
