"""The modules of a project by role, with their sizes and what they import: from its lock and its files."""

from extractor.usecases.graph.build import build
from extractor.usecases.graph.modules import Graph, Module

__all__ = ["Graph", "Module", "build"]
