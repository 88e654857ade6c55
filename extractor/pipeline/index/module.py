"""One upstream module, parsed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from pathlib import PurePosixPath

from extractor.pipeline.index.statement import Import, Statement, Uses
from extractor.pipeline.index.syntax import (
    attribute_chain,
    chains_of,
    child_statements,
    global_names,
    is_main_guard,
    string_annotations,
)
from extractor.values import readers
from extractor.values.errors import SourceError
from extractor.values.modules import absolute


class Module:
    """One upstream module, parsed."""

    def __init__(self, name: str, path: str, source: str, data: bytes | None = None) -> None:
        self.name = name
        self.path = path
        self.source = source
        self._data = data if data is not None else source.encode()
        self.is_package = PurePosixPath(path).name == "__init__.py"
        self._uses: dict[int, Uses] = {}

    @cached_property
    def sha256(self) -> str:
        """Return the hex digest of the upstream file."""
        return sha256(self._data).hexdigest()

    @cached_property
    def lines(self) -> list[str]:
        return readers.lines_of(self.source)

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        try:
            body = readers.python(self.source).body
        except SyntaxError as error:
            raise self._invalid(error) from None
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
        """Map local names to the module-level imports that bind them; of several to the first, before its fallbacks."""
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
        """Return what the statement at `index` takes from elsewhere."""
        if index not in self._uses:
            self._uses[index] = self._find_uses(self.statements[index])
        return self._uses[index]

    def decorators(self, index: int) -> Iterator[tuple[str, ...]]:
        """Yield the decorators of a definition as dotted chains, calls stripped: ("register_adv_est",)."""
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

    def absolute(self, node: ast.ImportFrom) -> str:
        """Return the absolute name of the module that a `from` statement of this module names."""
        return absolute(node, self.name, is_package=self.is_package)

    def _imports_of(self, node: ast.Import | ast.ImportFrom) -> Iterator[Import]:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                yield Import(alias.asname or alias.name, self.absolute(node), alias.name, node.lineno)
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
        try:
            names = global_names(text, self.path)
        except SyntaxError as error:  # such as a `nonlocal` of nothing, which the parser lets pass
            error.lineno = statement.line + (error.lineno or 1) - 1
            raise self._invalid(error) from None
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

    def _invalid(self, error: SyntaxError) -> SourceError:
        line = f":{error.lineno}" if error.lineno else ""
        return SourceError(
            f"{self.path}{line}: not valid Python: {error.msg}",
            hint="check that the source is an unmodified release of verl",
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
