"""The symbols reachable from the roots, and for each the edge that pulled it in."""

from __future__ import annotations

from collections.abc import Mapping

from extractor.pipeline.index import Index
from extractor.pipeline.slicer.definitions import STUBS
from extractor.pipeline.slicer.model import Edge, KeptModule, NotKept, Resolver, Stub, Substitute, Target
from extractor.pipeline.slicer.search import Search
from extractor.values.manifest import Manifest
from extractor.values.options import Options

__all__ = [
    "STUBS",
    "Edge",
    "KeptModule",
    "NotKept",
    "Resolver",
    "Slice",
    "Stub",
    "Substitute",
    "Target",
    "slice_source",
]


class Slice:
    """What the slicer found: the kept modules, the edges, the stubs, the warnings.

    Attributes:
        modules: Kept modules, sorted by name.
        edges: Symbol -> the edge that pulled it in first (a breadth-first search, so chains to a root are shortest).
        replaced: Upstream symbols that were reached and gave way to ours, with where.
        stubs: Stubs that the kept code can reach, sorted by name.
        effects: "path:line" of every module-level effect that stays although no kept symbol asked for it.
        warnings: What a user should know, such as imports of modules that the source does not ship.
        dead_imports: For a lenient search, "path:line" of such imports in code that is kept, each with what it imports.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self.modules: tuple[KeptModule, ...] = search.kept_modules()
        self.edges: Mapping[str, Edge] = dict(sorted(search.edges.items()))
        self.replaced: Mapping[str, Target] = dict(sorted(search.replaced.items()))
        self.stubs: tuple[Stub, ...] = tuple(search.stubs[name] for name in sorted(search.stubs))
        self.effects: tuple[str, ...] = tuple(sorted(search.effects))
        self.warnings: tuple[str, ...] = tuple(sorted(search.warnings))
        self.dead_imports: tuple[tuple[str, str], ...] = tuple(sorted(search.dead_imports))

    def resolve_import(self, importer: str, imported: str, name: str | None) -> Target | None:
        """See `Resolver.resolve_import`."""
        if imported.partition(".")[0] != "verl":
            return None
        if name is None:
            return self._search.module_target(imported)
        return self._search.target(self._search.definitions.define(imported, name), f"{imported}:{name}")


def slice_source(index: Index, manifest: Manifest, options: Options, *, lenient: bool = False) -> Slice:
    """Find everything reachable from the manifest's roots.

    Args:
        index: The source.
        manifest: Roots, cuts and replacements.
        options: Engine and features of the project.
        lenient: Collect imports of modules that the source does not ship, and go on.

    Raises:
        UsageError: a root that the manifest names does not exist in the source.
        SourceError: kept code imports a verl module that the source does not ship.
    """
    search = Search(index, manifest, options, lenient=lenient)
    for role in manifest.active_roles(options):
        for symbol in role.symbols:
            search.add_root(role.name, symbol)
        for module in role.modules:
            search.touch(module, f"role {role.name}")
    search.run()
    return Slice(search)
