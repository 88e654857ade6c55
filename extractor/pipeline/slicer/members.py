"""Decide which methods of kept classes stay."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from extractor.pipeline.index import Index, MemberNames, Method, Module
from extractor.pipeline.index.syntax import read_attribute_chain
from extractor.pipeline.slicer.definitions import Definitions
from extractor.pipeline.slicer.types import Edge
from extractor.values.manifest import Manifest, matches

TEMPLATE_CODE = "the project's templates"
OWNER_CODE = "the project's own code"
# Classes outside verl, and the methods that they or those who use them call. Of a class with another one above it all
# methods stay.
_OUTSIDE: Mapping[str, tuple[str, ...]] = {
    "abc.ABC": (),
    "builtins.object": (),
    "collections.abc.Mapping": ("get", "items", "keys", "values"),
    "enum.Enum": ("_generate_next_value_", "_missing_"),
    "torch.utils.data.Dataset": ("load_state_dict", "state_dict"),
    "typing.Generic": (),
    "typing.Protocol": (),
}
# Decorators that call nothing and keep no list of what they are put on.
_PLAIN = {
    "abc.abstractmethod",
    "builtins.classmethod",
    "builtins.property",
    "builtins.staticmethod",
    "contextlib.contextmanager",
    "functools.cache",
    "functools.cached_property",
    "functools.lru_cache",
    "functools.wraps",
    "torch.inference_mode",
    "torch.no_grad",
    "typing.overload",
    "typing_extensions.override",
}
# What Python's and torch's own code calls on any object that has it.
_BY_CONVENTION = frozenset({"close", "flush", "load_state_dict", "read", "state_dict", "write"})


@dataclass(frozen=True)
class Base:
    """Names a base class: kept (symbol) or external (dotted name)."""

    symbol: str = ""
    outside: str = ""


@dataclass(frozen=True)
class SlicedClass:
    """A class whose methods are chosen one by one.

    Attributes:
        symbol: "module:Class".
        module: Its module.
        statement: Index of its statement.
        bases: What stands above it.
        undecided: Methods on which nothing is decided yet, by position.
    """

    symbol: str
    module: Module
    statement: int
    bases: tuple[Base, ...]
    undecided: dict[int, Method]


class Members:
    """The kept classes, and the names that may reach their methods.

    Args:
        index: The source.
        manifest: The release; it names the classes that stay whole.
        definitions: Finds where names lead.
        templates: Names by which the project's own files may reach methods.
        asked_for: Methods that stay whatever names them, as "module:Class.method".
    """

    def __init__(
        self,
        index: Index,
        manifest: Manifest,
        definitions: Definitions,
        templates: MemberNames,
        asked_for: Iterable[str],
    ) -> None:
        self._index = index
        self._manifest = manifest
        self._definitions = definitions
        self._asked_for = frozenset(asked_for)
        self._holders: dict[str, SlicedClass] = {}
        self._any: dict[str, str] = {}
        self._patterns: dict[str, str] = {}
        self._own: dict[str, dict[str, str]] = {}
        self.edges: dict[str, Edge] = {}
        self.add_names(templates, TEMPLATE_CODE)

    def add_names(self, words: MemberNames, origin: str, holder: str = "") -> None:
        """Take in the names that a kept part uses.

        Args:
            words: The names.
            origin: The part, "module:name" or "module:Class.method".
            holder: For a part of a class, that class.
        """
        for name in words.any if holder else words.any | words.own:
            self._any.setdefault(name, origin)
        for pattern in words.put_together:
            self._patterns.setdefault(pattern, origin)
        for name in words.own if holder else ():
            self._own.setdefault(holder, {}).setdefault(name, origin)

    def add(self, module: Module, statement: int) -> str:
        """Add a kept statement; return its class symbol or ""."""
        methods = module.methods(statement)
        node = module.statements[statement].node
        if not isinstance(node, ast.ClassDef) or module.bindings[node.name] != (statement,):
            return ""
        symbol = f"{module.name}:{node.name}"
        bases = tuple(self._resolve_base(module, base) for base in node.bases)
        self._holders[symbol] = SlicedClass(symbol, module, statement, bases, {item.position: item for item in methods})
        return symbol

    def take_reached_methods(self) -> Iterator[tuple[SlicedClass, Method, str]]:
        """Yield the methods reached since the last call, with their symbols."""
        related = self._map_related()
        changed = True
        while changed:
            changed = False
            for symbol in sorted(self._holders):
                holder = self._holders[symbol]
                for position, method in list(holder.undecided.items()):
                    edge = self._make_edge(holder, method, related[symbol])
                    if edge is not None:
                        changed = True
                        del holder.undecided[position]
                        self.edges.setdefault(edge.symbol, edge)
                        yield holder, method, edge.symbol

    def is_read(self, symbol: str, attribute: str) -> bool:
        """Return True if kept code reads an attribute of a class."""
        holder = self._holders.get(symbol)
        if attribute in self._any or holder is None:
            return True
        for method in holder.module.methods(holder.statement):
            stores = any(
                isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Store)
                and read_attribute_chain(node.value)[1:] == (attribute,)
                for node in ast.walk(method.node)
            )
            if not stores and method.position not in holder.undecided:
                words = holder.module.uses(holder.statement, method.position).words
                if attribute in words.own:
                    return True
        return False

    def list_dropped(self) -> Iterator[tuple[SlicedClass, tuple[Method, ...]]]:
        """Yield the classes of which methods were left out, with those."""
        for symbol in sorted(self._holders):
            holder = self._holders[symbol]
            if holder.undecided:
                yield holder, tuple(holder.undecided.values())

    def _make_edge(self, holder: SlicedClass, method: Method, related: Iterable[str]) -> Edge | None:
        symbol = f"{holder.symbol}.{method.name}"
        name = method.name
        if symbol in self._asked_for:
            return Edge(symbol, "vextract.lock", "asks for", 0)
        if matches(holder.symbol, self._manifest.whole):
            return Edge(symbol, holder.symbol, "holds", 0)
        if name.startswith("__") and name.endswith("__"):
            return Edge(symbol, holder.symbol, "holds", 0)
        if name in _BY_CONVENTION or self._is_called_outside(holder, name):
            return Edge(symbol, holder.symbol, "holds", 0)
        if self._is_registered(holder.module, holder, method):
            return Edge(symbol, holder.symbol, "registers", method.line)
        origin = self._any.get(name)
        if origin is None:
            origin = next((self._own[item][name] for item in related if name in self._own.get(item, ())), None)
        if origin is None:
            origin = next((self._patterns[item] for item in sorted(self._patterns) if fnmatchcase(name, item)), None)
        if origin is not None:
            return Edge(symbol, origin, "names", 0)
        above = next((item for item in self._list_above(holder.symbol) if f"{item}.{name}" in self.edges), None)
        return Edge(symbol, f"{above}.{name}", "is overridden by", method.line) if above is not None else None

    # What stands above a class

    def _resolve_base(self, module: Module, node: ast.expr) -> Base:
        chain = read_attribute_chain(node.value if isinstance(node, ast.Subscript) else node)
        return self._resolve_named(module, chain) if chain else Base(outside="?")

    def _resolve_named(self, module: Module, chain: tuple[str, ...]) -> Base:
        """Say what a dotted name means in a module."""
        found = self._definitions.define(module.name, chain[0])
        for position in range(1, len(chain)):
            if found.kind != "module":
                break
            found = self._definitions.define(found.module, chain[position])
        if found.kind == "local":
            return Base(symbol=f"{found.module}:{found.name}")
        item = module.imports.get(chain[0])
        if found.kind == "ours":
            return Base(outside=f"{found.module}.{found.name}")
        if item is not None:
            parts = [item.module] if item.name is None else [item.module, item.name]
            if item.dotted:
                parts = [chain[0]]
            return Base(outside=".".join([*parts, *chain[1:]]))
        return Base(outside="?" if chain[0] in module.bindings else f"builtins.{'.'.join(chain)}")

    def _list_above(self, symbol: str) -> Iterator[str]:
        """Yield the kept classes above one."""
        for base in self._holders[symbol].bases:
            if base.symbol in self._holders:
                yield base.symbol
                yield from self._list_above(base.symbol)

    def _list_outside_bases(self, symbol: str) -> Iterator[str]:
        for item in (symbol, *self._list_above(symbol)):
            for base in self._holders[item].bases:
                if base.symbol not in self._holders:
                    yield base.outside or "?"

    def _is_called_outside(self, holder: SlicedClass, name: str) -> bool:
        return any(
            (base not in _OUTSIDE and not base.startswith("verl.")) or name in _OUTSIDE.get(base, ())
            for base in self._list_outside_bases(holder.symbol)
        )

    def _map_related(self) -> dict[str, tuple[str, ...]]:
        """Map each class to those that may share an instance."""
        found: dict[str, set[str]] = {symbol: set() for symbol in self._holders}
        for symbol in self._holders:
            family = {symbol, *self._list_above(symbol)}
            for item in family:
                found[item] |= family
        return {symbol: tuple(sorted(family)) for symbol, family in found.items()}

    # Decorators

    def _is_registered(self, module: Module, holder: SlicedClass, method: Method) -> bool:
        """Return True if a decorator may register or call the method."""
        names = {item.name for item in module.methods(holder.statement)}
        for node in method.node.decorator_list:
            chain = read_attribute_chain(node.func if isinstance(node, ast.Call) else node)
            if chain and chain[0] in names:
                continue
            base = self._resolve_named(module, chain) if chain else Base(outside="?")
            if base.symbol:
                home, _, name = base.symbol.partition(":")
                if self._index[home].registering.get(name):
                    return True
            elif base.outside not in _PLAIN and not base.outside.startswith("verl."):
                return True
        return False
