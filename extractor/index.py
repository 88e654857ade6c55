"""Every module of the source: its statements, what each binds and names, its imports, effects and registries.

Nothing here is executed: `ast` gives the structure, `symtable` says which names a statement takes from its module.
A module is read when somebody asks for it, so that the index costs what the slice touches.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Protocol

from extractor.errors import SourceError


class SourceText(Protocol):
    """What the index needs of a source: its Python files by path, such as "verl/protocol.py"."""

    @property
    def files(self) -> Mapping[str, object]: ...

    def read(self, path: str) -> str: ...


@dataclass(frozen=True)
class Import:
    """One name that an import statement binds.

    Attributes:
        local: The name bound in the importing scope.
        module: Absolute dotted module that is imported.
        name: The name taken from it; None for `import module`; "*" for a star import.
        line: Line of the statement.
        dotted: True for `import a.b` without `as`: `local` is then "a", and attribute chains lead on.
    """

    local: str
    module: str
    name: str | None
    line: int
    dotted: bool = False


@dataclass(frozen=True)
class Statement:
    """One top-level statement of a module.

    Attributes:
        index: Position in the module's body.
        line, end_line: First and last line, decorators included.
        binds: Names it defines at module level; of imported names only those that a compound statement binds in more
            than one way (`if a: from x import f` / `else: from y import f`).
        imports: Module-level imports inside it (those in `if` and `try` blocks included).
        effect: True where it does something besides binding names.
        effect_on: For an effect on a name of the same module (`logger.setLevel(...)`), that name.
        node: The parsed statement.
    """

    index: int
    line: int
    end_line: int
    binds: tuple[str, ...]
    imports: tuple[Import, ...]
    effect: bool
    effect_on: str | None
    node: ast.stmt


@dataclass(frozen=True)
class Uses:
    """What a statement takes from elsewhere.

    Attributes:
        names: Names that it reads from its module's namespace, each with the attribute chains read from it:
            {"verl_F": {("masked_mean",)}, "torch": {("nn", "Module"), ()}}; () stands for the bare name.
        imports: Imports made inside its functions.
        chains: Attribute chains on the names that those imports bind.
    """

    names: Mapping[str, frozenset[tuple[str, ...]]]
    imports: tuple[Import, ...]
    chains: Mapping[str, frozenset[tuple[str, ...]]]


class Module:
    """One upstream module, parsed."""

    def __init__(self, name: str, path: str, source: str) -> None:
        self.name = name
        self.path = path
        self.source = source
        self.is_package = PurePosixPath(path).name == "__init__.py"
        self._uses: dict[int, Uses] = {}

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the upstream file."""
        return sha256(self.source.encode()).hexdigest()

    @cached_property
    def lines(self) -> list[str]:
        return self.source.splitlines(keepends=True)

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        try:
            body = ast.parse(self.source).body
        except SyntaxError as error:
            raise SourceError(
                f"{self.path}:{error.lineno}: not valid Python: {error.msg}",
                hint="check that the source is an unmodified release of verl",
            ) from None
        return tuple(self._statement(index, node) for index, node in enumerate(body))

    @cached_property
    def bindings(self) -> dict[str, tuple[int, ...]]:
        """Name -> indices of the statements that define it (imports excluded)."""
        found: dict[str, list[int]] = {}
        for statement in self.statements:
            for name in statement.binds:
                found.setdefault(name, []).append(statement.index)
        return {name: tuple(indices) for name, indices in found.items()}

    @cached_property
    def imports(self) -> dict[str, Import]:
        """Local name -> the module-level import that binds it; of several the first (the others are fallbacks)."""
        found: dict[str, Import] = {}
        for statement in self.statements:
            for item in statement.imports:
                if item.name != "*":
                    found.setdefault(item.local, item)
        return found

    @cached_property
    def dotted_imports(self) -> dict[str, list[Import]]:
        """Root name -> all `import root.x.y` statements at module level."""
        found: dict[str, list[Import]] = {}
        for statement in self.statements:
            for item in statement.imports:
                if item.dotted:
                    found.setdefault(item.local, []).append(item)
        return found

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """Modules imported with a star."""
        return tuple(item.module for statement in self.statements for item in statement.imports if item.name == "*")

    @cached_property
    def effects_on(self) -> dict[str, tuple[int, ...]]:
        """Name -> indices of the effect statements that act on it."""
        found: dict[str, list[int]] = {}
        for statement in self.statements:
            if statement.effect_on is not None:
                found.setdefault(statement.effect_on, []).append(statement.index)
        return {name: tuple(indices) for name, indices in found.items()}

    def uses(self, index: int) -> Uses:
        """What the statement at `index` takes from elsewhere."""
        if index not in self._uses:
            self._uses[index] = self._find_uses(self.statements[index])
        return self._uses[index]

    def decorators(self, index: int) -> Iterator[tuple[str, ...]]:
        """The decorators of a definition as dotted chains, calls stripped: ("register_adv_est",)."""
        node = self.statements[index].node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                chain = attribute_chain(decorator.func if isinstance(decorator, ast.Call) else decorator)
                if chain:
                    yield chain

    @cached_property
    def registering(self) -> dict[str, frozenset[str]]:
        """Functions and classes of this module whose use as a decorator fills a registry, with what they fill.

        They store into a container of their module, or of their class: `REGISTRY[name] = function`.
        """
        found = {
            statement.node.name: self._stores_into(statement.node)
            for statement in self.statements
            if isinstance(statement.node, (ast.FunctionDef, ast.ClassDef))
        }
        return {name: containers for name, containers in found.items() if containers}

    def _stores_into(self, definition: ast.FunctionDef | ast.ClassDef) -> frozenset[str]:
        found = set()
        for node in ast.walk(definition):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if not isinstance(target, ast.Subscript):
                    continue
                chain = attribute_chain(target.value)
                if chain and chain[0] in self.bindings:
                    found.add(chain[0])
                elif chain and chain[0] == "cls" and isinstance(definition, ast.ClassDef):
                    found.add(definition.name)
        return frozenset(found)

    def absolute(self, module: str | None, level: int) -> str:
        """The absolute name of the module that `from ..module import x` (level 2) names in this module."""
        if level == 0:
            return module or ""
        parts = self.name.split(".")
        base = parts[: len(parts) - level + (1 if self.is_package else 0)]
        return ".".join([*base, module] if module else base)

    def _imports_of(self, node: ast.Import | ast.ImportFrom) -> Iterator[Import]:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                yield Import(
                    alias.asname or alias.name, self.absolute(node.module, node.level), alias.name, node.lineno
                )
            elif alias.asname:
                yield Import(alias.asname, alias.name, None, node.lineno)
            else:
                yield Import(alias.name.partition(".")[0], alias.name, None, node.lineno, dotted="." in alias.name)

    def _statement(self, index: int, node: ast.stmt) -> Statement:
        binds: list[str] = []
        imports: list[Import] = []
        effects: list[str | None] = []
        self._collect(node, binds, imports, effects)
        if index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            effects = []
        decorators = getattr(node, "decorator_list", [])
        line = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        on = effects[0] if len(set(effects)) == 1 else None
        origins: dict[str, set[tuple[str, str | None]]] = {}
        for item in imports:
            origins.setdefault(item.local, set()).add((item.module, item.name))
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            binds.extend(name for name, ways in origins.items() if len(ways) > 1)
        return Statement(
            index=index,
            line=line,
            end_line=node.end_lineno or node.lineno,
            binds=tuple(dict.fromkeys(binds)),
            imports=tuple(imports),
            effect=bool(effects),
            effect_on=on,
            node=node,
        )

    def _collect(self, node: ast.stmt, binds: list[str], imports: list[Import], effects: list[str | None]) -> None:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.extend(self._imports_of(node))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            binds.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                names = [item.id for item in ast.walk(target) if isinstance(item, ast.Name)]
                if isinstance(target, (ast.Attribute, ast.Subscript)):
                    effects.append(names[0] if names else None)
                else:
                    binds.extend(names)
        elif isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
            if not is_main_guard(node):
                for child in child_statements(node):
                    self._collect(child, binds, imports, effects)
        elif isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):
                value = node.value.func if isinstance(node.value, ast.Call) else node.value
                chain = attribute_chain(value)
                effects.append(chain[0] if chain and len(chain) > 1 else None)
        elif not isinstance(node, ast.Pass):
            effects.append(None)

    def _find_uses(self, statement: Statement) -> Uses:
        text = self._text(statement)
        names = global_names(text, self.path)
        inner: list[Import] = []
        chains: dict[str, set[tuple[str, ...]]] = {}
        for node in ast.walk(statement.node):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                inner.extend(self._imports_of(node))
            for annotation in string_annotations(node):
                for name, found in chains_of(annotation).items():
                    names.add(name)
                    chains.setdefault(name, set()).update(found)
        for name, found in chains_of(statement.node).items():
            chains.setdefault(name, set()).update(found)
        outer = set(statement.imports)
        lazy = tuple(item for item in inner if item not in outer)
        local = {item.local for item in lazy}
        return Uses(
            names={name: frozenset(chains.get(name, {()})) for name in sorted(names)},
            imports=lazy,
            chains={name: frozenset(chains.get(name, ())) for name in sorted(local)},
        )

    def _text(self, statement: Statement) -> str:
        same_line = [
            other
            for other in self.statements
            if other is not statement and (other.line == statement.end_line or other.end_line == statement.line)
        ]
        if same_line:
            return ast.unparse(statement.node)
        return "".join(self.lines[statement.line - 1 : statement.end_line])


class Index:
    """The modules of a source, by dotted name."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._paths = {module_name(path): path for path in source.files if path.endswith(".py")}
        self._modules: dict[str, Module] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """Dotted names of all modules and packages."""
        return frozenset(self._paths)

    def __contains__(self, module: object) -> bool:
        return module in self._paths

    def __getitem__(self, module: str) -> Module:
        if module not in self._modules:
            path = self._paths[module]
            self._modules[module] = Module(module, path, self._source.read(path))
        return self._modules[module]


def module_name(path: str) -> str:
    """The dotted module of a path: "verl/utils/__init__.py" -> "verl.utils"."""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def attribute_chain(node: ast.AST) -> tuple[str, ...]:
    """("a", "b", "c") for the expression a.b.c; () for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return (node.id, *reversed(parts))
    return ()


def chains_of(node: ast.AST) -> dict[str, set[tuple[str, ...]]]:
    """Name -> the attribute chains read from it anywhere below `node`, the longest of each expression."""
    found: dict[str, set[tuple[str, ...]]] = {}
    pending = [node]
    while pending:
        item = pending.pop()
        chain = attribute_chain(item)
        if chain:
            found.setdefault(chain[0], set()).add(chain[1:])
        else:
            pending.extend(ast.iter_child_nodes(item))
    return found


def string_annotations(node: ast.AST) -> Iterator[ast.expr]:
    """The annotations of a function or a variable that are written as strings, parsed."""
    annotations: list[ast.expr | None] = []
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        annotations.append(node.returns)
    elif isinstance(node, (ast.arg, ast.AnnAssign)):
        annotations.append(node.annotation)
    for annotation in annotations:
        for item in ast.walk(annotation) if annotation is not None else ():
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                try:
                    yield ast.parse(item.value.strip(), mode="eval").body
                except SyntaxError:
                    continue


def child_statements(node: ast.If | ast.Try | ast.With | ast.For | ast.While) -> Iterator[ast.stmt]:
    """The statements in the blocks of a compound statement, in order."""
    yield from node.body
    if isinstance(node, ast.Try):
        for handler in node.handlers:
            yield from handler.body
    if not isinstance(node, ast.With):
        yield from node.orelse
    if isinstance(node, ast.Try):
        yield from node.finalbody


def is_main_guard(node: ast.stmt) -> bool:
    """True for `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and any(
        isinstance(item, ast.Name) and item.id == "__name__" for item in ast.walk(node.test)
    )


def global_names(text: str, path: str) -> set[str]:
    """The names that a top-level statement reads from its module's namespace (builtins included)."""
    table = symtable.symtable(text, path, "exec")
    found = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    pending = list(table.get_children())
    while pending:
        child = pending.pop()
        found.update(symbol.get_name() for symbol in child.get_symbols() if symbol.is_global())
        pending.extend(child.get_children())
    return found
