"""Search from the roots along everything that kept code names."""

import ast
from collections.abc import Mapping

from extractor.pipeline.index import Index, MemberNames, Module
from extractor.pipeline.slicer.definitions import Definitions
from extractor.pipeline.slicer.follow import Follower
from extractor.pipeline.slicer.members import Members
from extractor.pipeline.slicer.types import KeptModule, Part, SearchState
from extractor.values.errors import MissingRoot, UsageError
from extractor.values.manifest import OWN_MANIFEST, Manifest
from extractor.values.nearest import find_nearest
from extractor.values.options import Options


class Search:
    """The worklist of a slice and its findings.

    Args:
        index: The source.
        manifest: Roots, cuts and replacements.
        options: Engine and features of the project, and the methods that its owner uses.
        templates: Names by which the project's own files may reach methods.
    """

    def __init__(self, index: Index, manifest: Manifest, options: Options, templates: MemberNames) -> None:
        self.found = SearchState(index, manifest)
        self.definitions = Definitions(index, manifest, options)
        self.members = Members(index, manifest, self.definitions, templates, options.methods)
        self._follower = Follower(self.found, self.definitions)
        self._registrants: set[tuple[str, str, str]] = set()  # module, name, module of the registry
        self._fixes = [fix for fix in manifest.fixes if fix.engine in (None, options.engine)]

    def add_root(self, origin: str, symbol: str) -> None:
        """Add a symbol as a root; "module:*" adds all definitions.

        Args:
            origin: What names it: a role, the owner's manifest, the project's own code.
            symbol: As "module:name".

        Raises:
            UsageError: it does not exist in the source, or gives way to ours although the owner asks for it.
        """
        index = self.found.index
        module, _, name = symbol.partition(":")
        if module not in index:
            raise self._explain_missing_root(origin, symbol)
        names = list(index[module].bindings) if name == "*" else [name]
        definitions = {item: self.definitions.define(module, item) for item in names}
        if origin == OWN_MANIFEST and name == "*" and all(found.kind != "local" for found in definitions.values()):
            below = sorted(other for other in index.names if other.startswith(f"{module}."))
            hint = f"name what you need: {', '.join(below)}" if below else f"`vextract remove {module}`"
            raise UsageError(f"{origin}: {module} defines nothing itself", hint=hint)
        for found in definitions.values():
            if found.kind == "missing":
                raise self._explain_missing_root(origin, symbol)
            if origin == OWN_MANIFEST and name != "*" and found.target is not None:
                raise UsageError(
                    f"{origin}: {symbol} gives way to {found.target.module}:{found.target.name} in a project",
                    hint=f"import that in place of it, and `vextract remove {symbol}`",
                )
            if name != "*" or found.kind == "local":
                self._follower.follow(found, origin, "root", 0)
            if name != "*" and found.module != module and self.found.manifest.borrowed_from:
                # It has moved, and where it was imports it: our files ask for it there.
                self.found.reexport(module, name)

    def run(self) -> None:
        """Follow everything pending to a fixed point."""
        while True:
            while self.found.pending:
                self._follow_part(self.found.pending.popleft())
            for holder, method, symbol in self.members.take_reached_methods():
                self.found.pending.append(
                    Part(holder.module.name, holder.statement, method.position, symbol, holder.symbol)
                )
            if self.found.pending:
                continue
            if not self._keep_registrants() and not self._keep_triggers():
                return

    def _keep_registrants(self) -> bool:
        """Keep registrants of kept modules whose registry is read."""
        before = len(self.found.edges)
        for name in sorted(self.found.kept):
            module = self.found.index[name]
            for statement in module.statements:
                for chain in module.decorators(statement.index):
                    registry = self.definitions.define(name, chain[0])
                    if registry.kind != "local":
                        continue
                    kept = self._read_containers(registry.module, registry.name)
                    if kept:
                        for bound in statement.binds:
                            found = self.definitions.define(name, bound)
                            if found.kind == "local":
                                origin = f"{registry.module}:{kept[0]}"
                                self._follower.follow_symbol(name, bound, origin, "registers", statement.line)
                                self._registrants.add((name, bound, registry.module))
        return len(self.found.edges) != before or bool(self.found.pending)

    def _read_containers(self, module: str, decorator: str) -> list[str]:
        """Return the registries that something else reads, sorted."""
        registering = self.found.index[module].registering
        storing = {f"{module}:{name}" for name in registering}
        found = []
        for container in sorted(registering.get(decorator, ())):
            holder, _, attribute = container.partition(".")
            readers = self.found.used_by.get(f"{module}:{container}", set()) - storing
            if readers or (attribute and self.members.is_read(f"{module}:{holder}", attribute)):
                found.append(holder)
        return found

    def _keep_triggers(self) -> bool:
        """Keep the imports whose only purpose is that a registration runs."""
        changed = False
        for module, _, registry in sorted(self._registrants):
            if module == registry:
                continue
            parts = module.split(".")
            packages = [".".join(parts[:length]) for length in range(1, len(parts))]
            for holder in sorted({*packages, *self.found.kept}):
                if holder not in self.found.index or holder == module:
                    continue
                for item in self.found.index[holder].imports.values():
                    if not f"{module}.".startswith(f"{item.module}."):
                        continue
                    found = self.definitions.define(holder, item.local)
                    if found.module == module and item.local not in self.found.reexports.get(holder, ()):
                        if found.kind == "local" and f"{module}:{found.name}" not in self.found.edges:
                            continue
                        if holder in packages or item.name is None:
                            self.found.keep_module(holder)
                            self.found.reexport(holder, item.local)
                            changed = True
        return changed

    def _follow_part(self, part: Part) -> None:
        module, holder = self.found.index[part.module], part.holder
        if part.method is None:
            holder = self.members.add(module, part.statement)
            if not holder:
                for method in module.methods(part.statement):
                    self.found.pending.append(Part(part.module, part.statement, method.position, part.origin))
        uses = module.uses(part.statement, part.method)
        self.members.add_names(uses.words, part.origin, holder)
        self._follower.follow_uses(module, part.statement, uses, part.origin)

    def list_kept_modules(self) -> tuple[KeptModule, ...]:
        """Return what is kept, module by module."""
        found = self.found
        dropped: dict[str, dict[int, tuple[int, ...]]] = {}
        for holder, methods in self.members.list_dropped():
            positions = tuple(method.position for method in methods)
            dropped.setdefault(holder.module.name, {})[holder.statement] = positions
        return tuple(
            self._make_kept_module(found.index[name], dropped.get(name, {}))
            for name in sorted(found.kept)
            if found.kept[name] or found.reexports.get(name) or found.substitutes.get(name)
        )

    def _make_kept_module(self, module: Module, dropped: Mapping[int, tuple[int, ...]]) -> KeptModule:
        substitutes = sorted(
            self.found.substitutes.get(module.name, ()), key=lambda substitute: (substitute.statement, substitute.name)
        )
        kept = self.found.kept[module.name] - {substitute.statement for substitute in substitutes}
        for statement in module.statements:
            plain = isinstance(statement.node, (ast.Import, ast.ImportFrom))
            docstring = statement.index == 0 and isinstance(statement.node, ast.Expr) and not statement.effect
            if plain or docstring or "__all__" in statement.binds:
                kept.add(statement.index)
        fixes = [fix.id for fix in self._fixes if fix.module == module.name]
        return KeptModule(
            module=module.name,
            upstream_path=module.path,
            upstream_sha256=module.sha256,
            target_path=self.found.manifest.target_path(module.path),
            source=module.source,
            kept=tuple(sorted(kept)),
            substitutes=tuple(substitutes),
            reexports=tuple(sorted(self.found.reexports.get(module.name, ()))),
            fixes=tuple(sorted(fixes)),
            dropped=tuple(sorted(dropped.items())),
            parsed=tuple(statement.node for statement in module.statements),
        )

    def _explain_missing_root(self, origin: str, symbol: str) -> UsageError:
        index, release = self.found.index, self.found.manifest.release
        if not origin.startswith("role "):
            holder, _, name = symbol.partition(":")
            others = [f"{module}:{name}" for module in sorted(index.names) if name in index[module].bindings]
            near = find_nearest(name, index[holder].bindings) if holder in index.names else []
            meant = " and ".join(others[:3] or [f"{holder}:{item}" for item in near])
            hint = f"it has {meant}: write that" if meant else "correct the name"
            return MissingRoot(symbol, f"{origin}: {symbol} is not in verl {release}", hint, is_elsewhere=bool(others))
        return UsageError(
            f"manifest of verl {release}: {origin}: {symbol} does not exist in the source",
            hint="check that the source is that release; otherwise correct the manifest",
        )
