"""From a project to full verl on Ray: the same experiment as a launch script and thin adapters around the hooks."""

from extractor.usecases.export.bundle import Export, export
from extractor.usecases.export.keys import Key, Status
from extractor.usecases.export.write import write

__all__ = ["Export", "Key", "Status", "export", "write"]
