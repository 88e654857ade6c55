"""Find imports and names of files.

Python's own compiler says which names a file leaves unbound. It shares no code with pipeline/rewrite/scopes.py on
purpose, so that a bug there cannot hide itself.
"""

import ast
import builtins
import symtable
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType

from extractor.values.modules import resolve_absolute

# What Python gives to every module.
_ALWAYS_THERE = {*vars(ModuleType("")), "__annotations__", "__builtins__", "__file__", "__path__"}
_KNOWN = {*dir(builtins), *_ALWAYS_THERE, "__class__", "WindowsError"}
_LATER = "from __future__ import annotations"  # with which the compiler passes annotations over


@dataclass(frozen=True)
class ImportedName:
    """Holds what an import statement binds a name to.

    Attributes:
        module: Absolute dotted module.
        name: The imported name; None where the module itself is bound.
        line: Line of the statement.
        top: It runs, unguarded, when the file is imported.
        target: The name that it binds, and the module that this may be.
    """

    module: str
    name: str | None
    line: int
    top: bool
    target: tuple[str, str] = ("", "")


class Analysis:
    """The imports and names of one file; of one that cannot be compiled, none.

    Args:
        text: Its text.
        module: Its dotted name, from which relative imports start.
        is_package: It is an `__init__.py`.
    """

    def __init__(self, text: str, module: str, *, is_package: bool = False) -> None:
        try:
            tables = [symtable.symtable(text.replace(_LATER, ""), "", "exec")]
        except (SyntaxError, ValueError):
            text, tables = "", [symtable.symtable("", "", "exec")]
        for table in tables:
            tables += table.get_children()
        self._top = tables[0].get_symbols()
        self._inside = [symbol for table in tables[1:] for symbol in table.get_symbols()]
        tree = ast.parse(text)
        self._nodes = list(ast.walk(tree))
        at_top = set(tree.body)
        imports = [
            item
            for node in self._nodes
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for item in _list_imported(node, module, is_package, node in at_top)
        ]
        self.imports = sorted(imports, key=lambda item: item.line)
        self.stars = [item for item in self.imports if item.name == "*"]
        bound = {symbol.get_name() for symbol in self._top if _is_bound(symbol) or symbol.is_imported()}
        bound |= {symbol.get_name() for symbol in self._inside if symbol.is_declared_global()}
        #: The names bound at the top of the module.
        self.names = frozenset(bound)

    def find_unbound(self) -> dict[str, int]:
        """Map names that nothing binds, not even Python itself, to the first line that uses them."""
        used = {symbol.get_name() for symbol in self._top if symbol.is_referenced()}
        used |= {symbol.get_name() for symbol in self._inside if symbol.is_global()}
        unbound = set() if self.stars else used - self.names - _KNOWN
        nodes = [node for node in self._nodes if isinstance(node, ast.Name) and node.id in unbound]
        return {node.id: node.lineno for node in sorted(nodes, key=lambda node: -node.lineno)}

    def list_chains(self) -> Iterator[tuple[str, list[str], int]]:
        """Yield what may be a module, attributes read from it, and the line, where only imports bind the name."""
        others = {symbol.get_name() for symbol in (*self._top, *self._inside) if _is_bound(symbol)}
        for node in self._nodes:
            chain: list[str] = []
            start = node
            while isinstance(start, ast.Attribute):
                chain.insert(0, start.attr)
                start = start.value
            if chain and isinstance(start, ast.Name) and start.id not in others:
                modules = {item.target[1] for item in self.imports if item.target[0] == start.id}
                yield from ((module, chain, start.lineno) for module in sorted(modules))


def _is_bound(symbol: symtable.Symbol) -> bool:
    """Tell whether something else than an import binds a name."""
    return symbol.is_assigned() or symbol.is_parameter() or symbol.is_namespace()


def _list_imported(
    node: ast.Import | ast.ImportFrom, module: str, is_package: bool, top: bool
) -> Iterator[ImportedName]:
    for alias in node.names:
        if isinstance(node, ast.Import):
            target = (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
            yield ImportedName(alias.name, None, node.lineno, top, target)
        else:
            source = resolve_absolute(node, module, is_package=is_package)
            target = (alias.asname or alias.name, f"{source}.{alias.name}")
            yield ImportedName(source, alias.name, node.lineno, top, target)


class ModuleNames:
    """Knows which modules there are, and which names they have.

    Args:
        modules: Their dotted names; packages above them count as well.
        analyse: Returns the analysis of one of them.
    """

    def __init__(self, modules: Iterable[str], analyse: Callable[[str], Analysis]) -> None:
        self.modules = frozenset(modules)
        self.analyse = analyse
        parts = [name.split(".") for name in self.modules]
        self.known = {".".join(item[:end]) for item in parts for end in range(1, len(item) + 1)}

    def has(self, module: str, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Tell whether a module has a name, its own or by `import *`."""
        if f"{module}.{name}" in self.known or module not in self.modules or module in seen:
            return f"{module}.{name}" in self.known
        analysis = self.analyse(module)
        if name in analysis.names or name in _ALWAYS_THERE:
            return True
        return any(self.has(star.module, name, seen | {module}) for star in analysis.stars)

    def explain_missing(self, item: ImportedName) -> str:
        """Say what an import does not find; empty if it finds all."""
        if item.module not in self.known:
            return f"imports {item.module}, which does not exist"
        if item.name in (None, "*") or self.has(item.module, item.name or ""):
            return ""
        return f"imports {item.name} from {item.module}, which does not define it"
