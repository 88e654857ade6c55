"""The search behind a slice: from the roots along everything that kept code names."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable

from extractor.pipeline.index import Import, Index, Module
from extractor.pipeline.slicer.definitions import MISSING, STUBS, Definition, Definitions
from extractor.pipeline.slicer.model import Edge, KeptModule, NotKept, Stub, Substitute, Target
from extractor.values.errors import SourceError, UsageError
from extractor.values.manifest import Manifest
from extractor.values.modules import module_name
from extractor.values.options import Options


class Search:
    """The worklist: symbols to follow, and all that was found on the way."""

    def __init__(self, index: Index, manifest: Manifest, options: Options, *, lenient: bool = False) -> None:
        self.index = index
        self.lenient = lenient
        self.manifest = manifest
        self.options = options
        self.edges: dict[str, Edge] = {}
        self.replaced: dict[str, Target] = {}
        self.stubs: dict[str, Stub] = {}
        self.effects: set[str] = set()
        self.warnings: set[str] = set()
        self.dead_imports: set[tuple[str, str]] = set()
        self._kept: dict[str, set[int]] = {}
        self._substitutes: dict[str, set[Substitute]] = {}
        self._reexports: dict[str, set[str]] = {}
        self._pending: deque[tuple[str, int, str]] = deque()
        self._registrants: set[tuple[str, str, str]] = set()
        self.definitions = Definitions(index, manifest, options)
        self._fixes = [fix for fix in manifest.fixes if fix.engine in (None, options.engine)]

    # The search itself

    def add_root(self, role: str, symbol: str) -> None:
        module, _, name = symbol.partition(":")
        if module not in self.index:
            raise self._no_root(role, symbol)
        names = list(self.index[module].bindings) if name == "*" else [name]
        for item in names:
            found = self.definitions.define(module, item)
            if found.kind == "missing":
                raise self._no_root(role, symbol)
            if name != "*" or found.kind == "local":
                self._follow(found, f"role {role}", "root", 0)

    def run(self) -> None:
        """Follow everything pending, registrants and the imports that trigger them included, to a fixed point."""
        while True:
            while self._pending:
                module, statement, origin = self._pending.popleft()
                self._follow_statement(self.index[module], statement, origin)
            if not self._keep_registrants() and not self._keep_triggers():
                return

    def touch(self, module: str, origin: str) -> None:
        """Note that a module stays in part; its effects stay with it."""
        if module in self._kept:
            return
        self._kept[module] = set()
        found = self.index[module]
        if found.is_package and module not in self.manifest.keep_effects:
            return
        for statement in found.statements:
            own = statement.effect_on is not None and statement.effect_on in found.bindings
            if statement.effect and not own and not statement.binds:
                place = f"{found.path}:{statement.line}"
                if place not in self.manifest.drop_effects:
                    self.effects.add(place)
                    self._keep(found, statement.index, f"effect of {module}")

    def _keep(self, module: Module, statement: int, origin: str) -> None:
        kept = self._kept[module.name]
        if statement not in kept:
            kept.add(statement)
            self._pending.append((module.name, statement, origin))

    def _follow_symbol(self, module: str, name: str, origin: str, how: str, line: int) -> None:
        symbol = f"{module}:{name}"
        if symbol in self.edges:
            return
        self.edges[symbol] = Edge(symbol, origin, how, line)
        self.touch(module, origin)
        found = self.index[module]
        for statement in (*found.bindings[name], *found.effects_on.get(name, ())):
            self._keep(found, statement, symbol)
        if any(item.local == name for index in found.bindings[name] for item in found.statements[index].imports):
            self._reexports.setdefault(module, set()).add(name)

    def _follow_statement(self, module: Module, index: int, origin: str) -> None:
        uses = module.uses(index)
        statement = module.statements[index]
        for name, chains in uses.names.items():
            self._follow_name(module, name, chains, origin, statement.line)
        for item in statement.imports:
            if item.local in statement.binds and item.module.partition(".")[0] == "verl":
                self._follow_import(module, item, ((),), origin, "imports lazily")
        for item in uses.imports:
            if item.module.partition(".")[0] == "verl":
                self._follow_import(module, item, uses.chains.get(item.local, frozenset()), origin, "imports lazily")

    def _follow_name(
        self, module: Module, name: str, chains: Iterable[tuple[str, ...]], origin: str, line: int
    ) -> None:
        if name in module.bindings:
            self._follow(self.definitions.define(module.name, name), origin, "uses", line, within=module.name)
        elif name in module.dotted_imports:
            for item in module.dotted_imports[name]:
                self._keep_compound(module, item, origin)
                if name == "verl":
                    self._follow_import(module, item, chains, origin, "uses")
        elif name in module.imports:
            item = module.imports[name]
            found = self.definitions.define(module.name, name)
            if found.kind == "ours" and found.module == module.name:
                self._follow(found, origin, "uses", line, within=module.name)
                return
            self._keep_compound(module, item, origin)
            if item.module.partition(".")[0] == "verl":
                self._follow_import(module, item, chains, origin, "uses")
        else:
            for star in module.stars:
                found = self.definitions.define(star, name) if star in self.index else MISSING
                if found.kind != "missing":
                    self._follow(found, origin, "uses", line)

    def _keep_compound(self, module: Module, item: Import, origin: str) -> None:
        """Keep the `if` or `try` block around an import that is used; plain imports stay by themselves."""
        for statement in module.statements:
            if item in statement.imports and not isinstance(statement.node, (ast.Import, ast.ImportFrom)):
                self._keep(module, statement.index, origin)

    def _follow_import(
        self, module: Module, item: Import, chains: Iterable[tuple[str, ...]], origin: str, how: str
    ) -> None:
        if item.dotted:
            for chain in chains:
                self._follow_path(module, (item.local, *chain), item, origin, how)
            return
        if item.name is None:
            found = Definition("module", item.module) if item.module in self.index else MISSING
        else:
            found = self.definitions.define(item.module, item.name)
        if found.kind == "missing":
            self._missing(module, item, how)
        elif found.kind == "module":
            for chain in chains or [()]:
                self._follow_attribute(found.module, chain, origin, how, item.line)
        else:
            self._follow(found, origin, how, item.line)

    def _follow_path(self, module: Module, path: tuple[str, ...], item: Import, origin: str, how: str) -> None:
        """Follow `verl.a.b.name`, reached through `import verl.a.b`."""
        for length in range(len(path), 0, -1):
            name = ".".join(path[:length])
            if name in self.index:
                self._follow_attribute(name, path[length:], origin, how, item.line)
                return
        self._missing(module, item, how)

    def _follow_attribute(self, module: str, chain: tuple[str, ...], origin: str, how: str, line: int) -> None:
        """Follow what is reached as an attribute of a module; what the module only imports must stay importable."""
        self.touch(module, origin)
        if not chain:
            return
        found = self.definitions.define(module, chain[0])
        if found.kind == "missing":
            return
        if found.kind == "module":
            if found.module != f"{module}.{chain[0]}":
                self._reexports.setdefault(module, set()).add(chain[0])
            self._follow_attribute(found.module, chain[1:], origin, how, line)
            return
        elsewhere = found.module != module and chain[0] not in self.index[module].bindings
        if elsewhere or (found.kind == "ours" and found.module == module):
            self._reexports.setdefault(module, set()).add(chain[0])
        self._follow(found, origin, how, line, within=module)

    def _follow(self, found: Definition, origin: str, how: str, line: int, within: str | None = None) -> None:
        if found.kind == "local":
            self._follow_symbol(found.module, found.name, origin, how, line)
        elif found.kind == "module":
            self._follow_attribute(found.module, (), origin, how, line)
        elif found.kind == "external":
            self.touch(found.module, origin)
            self._reexports.setdefault(found.module, set()).add(found.name)
        elif found.kind == "ours":
            assert found.target is not None
            symbol = f"{found.module}:{found.name}"
            self.replaced.setdefault(symbol, found.target)
            self.edges.setdefault(symbol, Edge(symbol, origin, how, line))
            if found.target.module == STUBS:
                self._add_stub(symbol, found)
            if within == found.module:
                for statement in self._binding(self.index[found.module], found.name):
                    substitute = Substitute(statement, found.name, found.target)
                    self._substitutes.setdefault(found.module, set()).add(substitute)

    @staticmethod
    def _binding(module: Module, name: str) -> tuple[int, ...]:
        """Return the statements that bind a name, by a definition or by an import of its own."""
        if name in module.bindings:
            return tuple(module.bindings[name])
        item = module.imports[name]
        return tuple(statement.index for statement in module.statements if item in statement.imports)

    # Registries

    def _keep_registrants(self) -> bool:
        before = len(self.edges)
        for name in sorted(self._kept):
            module = self.index[name]
            for statement in module.statements:
                for chain in module.decorators(statement.index):
                    registry = self.definitions.define(name, chain[0])
                    if registry.kind != "local":
                        continue
                    containers = self.index[registry.module].registering.get(registry.name, frozenset())
                    kept = [item for item in sorted(containers) if f"{registry.module}:{item}" in self.edges]
                    if kept:
                        for bound in statement.binds:
                            found = self.definitions.define(name, bound)
                            if found.kind == "local":
                                origin = f"{registry.module}:{kept[0]}"
                                self._follow_symbol(name, bound, origin, "registers", statement.line)
                                self._registrants.add((name, bound, registry.module))
        return len(self.edges) != before or bool(self._pending)

    def _keep_triggers(self) -> bool:
        """Keep the imports whose only purpose is that a registration runs."""
        changed = False
        for module, _, registry in sorted(self._registrants):
            if module == registry:
                continue
            parts = module.split(".")
            packages = [".".join(parts[:length]) for length in range(1, len(parts))]
            for holder in sorted({*packages, *self._kept}):
                if holder not in self.index or holder == module:
                    continue
                for item in self.index[holder].imports.values():
                    if not f"{module}.".startswith(f"{item.module}."):
                        continue
                    found = self.definitions.define(holder, item.local)
                    if found.module == module and item.local not in self._reexports.get(holder, ()):
                        if found.kind == "local" and f"{module}:{found.name}" not in self.edges:
                            continue
                        if holder in packages or item.name is None:
                            self.touch(holder, f"registration in {module}")
                            self._reexports.setdefault(holder, set()).add(item.local)
                            changed = True
        return changed

    # Names in the project

    def target(self, found: Definition, symbol: str) -> Target:
        """Return where a definition lives in the generated package."""
        if found.kind == "local" and f"{found.module}:{found.name}" in self.edges:
            return Target(self._target_module(found.module), found.name)
        if found.kind == "ours" and f"{found.module}:{found.name}" in self.replaced:
            assert found.target is not None
            return found.target
        if found.kind == "module":
            return self.module_target(found.module)
        if found.kind == "external" and found.name in self._reexports.get(found.module, ()):
            return Target(self._target_module(found.module), found.name)
        raise NotKept(symbol)

    def module_target(self, module: str) -> Target:
        """Return where a module lives in the generated package."""
        if module not in self._kept:
            raise NotKept(module)
        return Target(self._target_module(module), None)

    def _target_module(self, module: str) -> str:
        return module_name(self.manifest.target_path(self.index[module].path))

    # Results and errors

    def kept_modules(self) -> tuple[KeptModule, ...]:
        return tuple(self._kept_module(self.index[name]) for name in sorted(self._kept) if self._stays(name))

    def _stays(self, name: str) -> bool:
        return bool(self._kept[name] or self._reexports.get(name) or self._substitutes.get(name))

    def _kept_module(self, module: Module) -> KeptModule:
        substitutes = sorted(
            self._substitutes.get(module.name, ()), key=lambda substitute: (substitute.statement, substitute.name)
        )
        kept = self._kept[module.name] - {substitute.statement for substitute in substitutes}
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
            target_path=self.manifest.target_path(module.path),
            source=module.source,
            kept=tuple(sorted(kept)),
            substitutes=tuple(substitutes),
            reexports=tuple(sorted(self._reexports.get(module.name, ()))),
            fixes=tuple(sorted(fixes)),
            body=tuple(statement.node for statement in module.statements),
        )

    def _add_stub(self, symbol: str, found: Definition) -> None:
        feature = self.definitions.feature_of(symbol) or ""
        other = self.stubs.setdefault(found.name, Stub(found.name, symbol, feature))
        if other.feature != feature:
            raise UsageError(
                f"manifest of verl {self.manifest.release}: cut symbols of two features share a name: "
                f"{other.symbol} ({other.feature}), {symbol} ({feature})",
                hint="give one of them a replacement of its own instead of a cut",
            )

    def _missing(self, module: Module, item: Import, how: str) -> None:
        wanted = f"{item.module}.{item.name}" if item.name else item.module
        place = f"{module.path}:{item.line}"
        guarded = any(
            item in statement.imports and isinstance(statement.node, ast.Try) for statement in module.statements
        )
        if how == "imports lazily" or guarded:
            self.warnings.add(f"{place} imports {wanted} lazily, which verl {self.manifest.release} does not ship")
            return
        if self.lenient:
            self.dead_imports.add((place, wanted))
            return
        raise SourceError(
            f"{place}: imports {wanted}, which the source does not ship",
            hint="if this is a released verl, its manifest must cut or replace what uses it",
        )

    def _no_root(self, role: str, symbol: str) -> UsageError:
        return UsageError(
            f"manifest of verl {self.manifest.release}: role {role}: {symbol} does not exist in the source",
            hint="check that the source is that release; otherwise correct the manifest",
        )
