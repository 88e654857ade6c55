"""Find symbols reachable from the roots, and the edges to them."""

from collections.abc import Mapping

from extractor.pipeline.index import Index, MemberNames
from extractor.pipeline.slicer.definitions import STUBS as STUBS
from extractor.pipeline.slicer.members import OWNER_CODE
from extractor.pipeline.slicer.search import Search
from extractor.pipeline.slicer.types import Edge as Edge
from extractor.pipeline.slicer.types import KeptModule as KeptModule
from extractor.pipeline.slicer.types import NotKept as NotKept
from extractor.pipeline.slicer.types import Resolver as Resolver
from extractor.pipeline.slicer.types import Stub as Stub
from extractor.pipeline.slicer.types import Substitute as Substitute
from extractor.pipeline.slicer.types import Target as Target
from extractor.values.manifest import OWN_MANIFEST, Manifest
from extractor.values.modules import name_module
from extractor.values.options import Options


class Slice:
    """The kept modules, the edges, the stubs, the warnings.

    Attributes:
        modules: Kept modules, sorted by name.
        edges: Symbol -> the edge that pulled it in first (a breadth-first search, so chains to a root are short).
            Methods of kept classes are among them, as "module:Class.method".
        dropped: "module:Class" -> the names of its methods that nothing can reach.
        replaced: Upstream symbols that were reached and gave way to ours, with where.
        stubs: Stubs that the kept code can reach, sorted by name.
        effects: "path:line" of every module-level effect that stays although no kept symbol asked for it.
        warnings: What a user should know, such as imports of modules that the source does not ship.
    """

    def __init__(self, search: Search) -> None:
        self._found = found = search.found
        self._definitions = search.definitions
        self.modules: tuple[KeptModule, ...] = search.list_kept_modules()
        self.edges: Mapping[str, Edge] = dict(sorted((found.edges | search.members.edges).items()))
        self.dropped: Mapping[str, tuple[str, ...]] = {
            holder.symbol: tuple(dict.fromkeys(method.name for method in methods))
            for holder, methods in search.members.list_dropped()
        }
        self.replaced: Mapping[str, Target] = dict(sorted(found.replaced.items()))
        self.stubs: tuple[Stub, ...] = tuple(found.stubs[name] for name in sorted(found.stubs))
        self.effects: tuple[str, ...] = tuple(sorted(found.effects))
        self.warnings: tuple[str, ...] = tuple(sorted(found.warnings))

    def resolve_import(self, importer: str, imported: str, name: str | None) -> Target | None:
        """See `Resolver.resolve_import`."""
        if imported.partition(".")[0] != "verl":
            return None
        if name is None:
            return self._place_module(imported)
        kept, found = self._found, self._definitions.define(imported, name)
        symbol = f"{found.module}:{found.name}"
        if found.kind == "ours" and symbol in kept.replaced:
            return found.target
        if found.kind == "module":
            return self._place_module(found.module)
        is_kept = found.kind == "local" and symbol in kept.edges
        if is_kept or (found.kind == "external" and found.name in kept.reexports.get(found.module, ())):
            return Target(self._name_place(found.module), found.name)
        raise NotKept(f"{imported}:{name}")

    def _place_module(self, module: str) -> Target:
        if module not in self._found.kept:
            raise NotKept(module)
        return Target(self._name_place(module), None)

    def _name_place(self, module: str) -> str:
        return name_module(self._found.manifest.target_path(self._found.index[module].path))


def slice_source(index: Index, manifest: Manifest, options: Options, templates: MemberNames | None = None) -> Slice:
    """Find everything reachable from the manifest's roots.

    Args:
        index: The source.
        manifest: Roots, cuts and replacements.
        options: Engine and features of the project, and the methods that its owner uses.
        templates: Names by which the project's own files may reach methods.

    Raises:
        UsageError: a root that the manifest names does not exist in the source.
        SourceError: kept code imports a verl module that the source does not ship.
    """
    search = Search(index, manifest, options, templates or MemberNames())
    for role in manifest.list_active_roles(options):
        for symbol in role.symbols:
            search.add_root(f"role {role.name}", symbol)
        for module in role.modules:
            search.found.keep_module(module)
    for symbol in manifest.own:
        search.add_root(OWN_MANIFEST, symbol)
    for symbol in options.roots:
        search.add_root(OWNER_CODE, symbol)
    search.run()
    return Slice(search)
