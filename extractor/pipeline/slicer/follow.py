"""Resolve the names that a kept part uses."""

import ast
from collections.abc import Iterable

from extractor.pipeline.index import Import, Module, Uses
from extractor.pipeline.slicer.definitions import MISSING, STUBS, Definition, Definitions
from extractor.pipeline.slicer.types import Edge, SearchState, Stub, Substitute
from extractor.values.errors import SourceError, UsageError


class Follower:
    """Keeps what names lead to.

    Args:
        found: Takes what is found.
        definitions: Finds where names lead.
    """

    def __init__(self, found: SearchState, definitions: Definitions) -> None:
        self._found = found
        self._index = found.index
        self._definitions = definitions

    def follow_uses(self, module: Module, statement: int, uses: Uses, origin: str) -> None:
        """Follow everything that a part of a module uses."""
        node = module.statements[statement]
        for name, chains in uses.names.items():
            self._follow_name(module, name, chains, origin, node.line)
        for item in node.imports:
            if item.local in node.binds and item.module.partition(".")[0] == "verl":
                self._follow_import(module, item, ((),), origin, "imports lazily")
        for item in uses.imports:
            if item.module.partition(".")[0] == "verl":
                self._follow_import(module, item, uses.chains.get(item.local, frozenset()), origin, "imports lazily")

    def follow_symbol(self, module: str, name: str, origin: str, how: str, line: int) -> None:
        symbol = f"{module}:{name}"
        self._found.used_by.setdefault(symbol, set()).add(origin)
        if symbol in self._found.edges:
            return
        self._found.edges[symbol] = Edge(symbol, origin, how, line)
        self._found.keep_module(module)
        found = self._index[module]
        for statement in (*found.bindings[name], *found.effects_on.get(name, ())):
            self._found.keep(module, statement, symbol)
        if any(item.local == name for index in found.bindings[name] for item in found.statements[index].imports):
            self._found.reexport(module, name)

    def _follow_name(
        self, module: Module, name: str, chains: Iterable[tuple[str, ...]], origin: str, line: int
    ) -> None:
        if name in module.bindings:
            self.follow(self._definitions.define(module.name, name), origin, "uses", line, within=module.name)
        elif name in module.dotted_imports:
            for item in module.dotted_imports[name]:
                self._keep_compound(module, item, origin)
                if name == "verl":
                    self._follow_import(module, item, chains, origin, "uses")
        elif name in module.imports:
            item = module.imports[name]
            found = self._definitions.define(module.name, name)
            if found.kind == "ours" and found.module == module.name:
                self.follow(found, origin, "uses", line, within=module.name)
                return
            self._keep_compound(module, item, origin)
            if item.module.partition(".")[0] == "verl":
                self._follow_import(module, item, chains, origin, "uses")
        else:
            for star in module.stars:
                found = self._definitions.define(star, name) if star in self._index else MISSING
                if found.kind != "missing":
                    self.follow(found, origin, "uses", line)

    def _keep_compound(self, module: Module, item: Import, origin: str) -> None:
        """Keep the `if` or `try` block around a used import."""
        for statement in module.statements:
            if item in statement.imports and not isinstance(statement.node, (ast.Import, ast.ImportFrom)):
                self._found.keep(module.name, statement.index, origin)

    def _follow_import(
        self, module: Module, item: Import, chains: Iterable[tuple[str, ...]], origin: str, how: str
    ) -> None:
        if item.dotted:
            for chain in chains:
                self._follow_path(module, (item.local, *chain), item, origin, how)
            return
        if item.name is None:
            found = Definition("module", item.module) if item.module in self._index else MISSING
        else:
            found = self._definitions.define(item.module, item.name)
        if found.kind == "missing":
            self._report_missing(module, item, how)
        elif found.kind == "module":
            for chain in chains or [()]:
                self._follow_attribute(found.module, chain, origin, how, item.line)
        else:
            self.follow(found, origin, how, item.line)

    def _follow_path(self, module: Module, path: tuple[str, ...], item: Import, origin: str, how: str) -> None:
        """Follow `verl.a.b.name`, reached through `import verl.a.b`."""
        for length in range(len(path), 0, -1):
            name = ".".join(path[:length])
            if name in self._index:
                self._follow_attribute(name, path[length:], origin, how, item.line)
                return
        self._report_missing(module, item, how)

    def _follow_attribute(self, module: str, chain: tuple[str, ...], origin: str, how: str, line: int) -> None:
        """Follow an attribute of a module to its definition."""
        self._found.keep_module(module)
        if not chain:
            return
        found = self._definitions.define(module, chain[0])
        if found.kind == "missing":
            return
        if found.kind == "module":
            if found.module != f"{module}.{chain[0]}":
                self._found.reexport(module, chain[0])
            self._follow_attribute(found.module, chain[1:], origin, how, line)
            return
        elsewhere = found.module != module and chain[0] not in self._index[module].bindings
        if elsewhere or (found.kind == "ours" and found.module == module):
            self._found.reexport(module, chain[0])
        self.follow(found, origin, how, line, within=module)

    def follow(self, found: Definition, origin: str, how: str, line: int, within: str | None = None) -> None:
        if found.kind == "local":
            self.follow_symbol(found.module, found.name, origin, how, line)
        elif found.kind == "module":
            self._follow_attribute(found.module, (), origin, how, line)
        elif found.kind == "external":
            self._found.keep_module(found.module)
            self._found.reexport(found.module, found.name)
        elif found.kind == "ours":
            assert found.target is not None
            symbol = f"{found.module}:{found.name}"
            self._found.replaced.setdefault(symbol, found.target)
            self._found.edges.setdefault(symbol, Edge(symbol, origin, how, line))
            if found.target.module == STUBS:
                self._add_stub(symbol, found)
            if within == found.module:
                for statement in self._find_binding(self._index[found.module], found.name):
                    substitute = Substitute(statement, found.name, found.target)
                    self._found.substitutes.setdefault(found.module, set()).add(substitute)

    @staticmethod
    def _find_binding(module: Module, name: str) -> tuple[int, ...]:
        """Return the statements that define or import a name."""
        if name in module.bindings:
            return tuple(module.bindings[name])
        item = module.imports[name]
        return tuple(statement.index for statement in module.statements if item in statement.imports)

    def _add_stub(self, symbol: str, found: Definition) -> None:
        feature = self._definitions.find_feature(symbol) or ""
        other = self._found.stubs.setdefault(found.name, Stub(found.name, symbol, feature))
        if other.feature != feature:
            raise UsageError(
                f"manifest of verl {self._found.manifest.release}: cut symbols of two features share a name: "
                f"{other.symbol} ({other.feature}), {symbol} ({feature})",
                hint="give one of them a replacement of its own instead of a cut",
            )

    def _report_missing(self, module: Module, item: Import, how: str) -> None:
        wanted = f"{item.module}.{item.name}" if item.name else item.module
        place = f"{module.path}:{item.line}"
        guarded = any(
            item in statement.imports and isinstance(statement.node, ast.Try) for statement in module.statements
        )
        if how == "imports lazily" or guarded:
            self._found.warnings.add(
                f"{place} imports {wanted} lazily, which verl {self._found.manifest.release} does not ship"
            )
            return
        raise SourceError(
            f"{place}: imports {wanted}, which the source does not ship",
            hint="if this is a released verl, its manifest must cut or replace what uses it",
        )
