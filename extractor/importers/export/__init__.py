"""From a project to full verl on Ray: the same experiment as a launch script and thin adapters around the hooks."""

from extractor.importers.config.keys import Key, KeyStatus
from extractor.importers.export.bundle import Export, export, write

__all__ = ["Export", "Key", "KeyStatus", "export", "write"]
