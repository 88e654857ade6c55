"""Parse one upstream module."""

import ast
from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from pathlib import PurePosixPath

from extractor.pipeline.index.reading import CodeScan
from extractor.pipeline.index.statement import Import, Method, Statement, Uses
from extractor.pipeline.index.syntax import (
    find_first_argument,
    find_first_line,
    find_global_names,
    is_main_guard,
    list_child_statements,
    read_attribute_chain,
)
from extractor.values import readers
from extractor.values.errors import SourceError
from extractor.values.modules import resolve_absolute


class Module:
    """One upstream module, parsed."""

    def __init__(self, name: str, path: str, source: str, data: bytes | None = None) -> None:
        self.name = name
        self.path = path
        self.source = source
        self._data = data if data is not None else source.encode()
        self.is_package = PurePosixPath(path).name == "__init__.py"
        self._uses: dict[tuple[int, int | None], Uses] = {}
        self._methods: dict[int, tuple[Method, ...]] = {}

    @cached_property
    def sha256(self) -> str:
        """Return the hex digest of the upstream file."""
        return sha256(self._data).hexdigest()

    @cached_property
    def lines(self) -> list[str]:
        return readers.split_lines(self.source)

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        try:
            body = readers.parse_python(self.source).body
        except SyntaxError as error:
            raise self._explain_invalid(error) from None
        return tuple(self._make_statement(index, node) for index, node in enumerate(body))

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
        """Map local names to the module-level imports that bind them.

        Of several imports of a name the first counts, before its fallbacks.
        """
        found: dict[str, Import] = {}
        for statement in self.statements:
            for item in statement.imports:
                if item.name != "*":
                    found.setdefault(item.local, item)
        return found

    @cached_property
    def dotted_imports(self) -> dict[str, list[Import]]:
        """Return root name -> all `import root.x.y` statements at module level."""
        found: dict[str, list[Import]] = {}
        for statement in self.statements:
            for item in statement.imports:
                if item.dotted:
                    found.setdefault(item.local, []).append(item)
        return found

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """Return the modules imported with a star."""
        return tuple(item.module for statement in self.statements for item in statement.imports if item.name == "*")

    @cached_property
    def effects_on(self) -> dict[str, tuple[int, ...]]:
        """Name -> indices of the effect statements that act on it."""
        found: dict[str, list[int]] = {}
        for statement in self.statements:
            if statement.effect_on is not None:
                found.setdefault(statement.effect_on, []).append(statement.index)
        return {name: tuple(indices) for name, indices in found.items()}

    def uses(self, index: int, method: int | None = None) -> Uses:
        """Return what a part of the module takes from elsewhere.

        Args:
            index: Of the statement. Of a class it is what stands around its methods.
            method: Position of a method in the body of that class; None: the statement.
        """
        key = (index, method)
        if key not in self._uses:
            self._uses[key] = self._find_uses(self.statements[index], method)
        return self._uses[key]

    def methods(self, index: int) -> tuple[Method, ...]:
        """Return the methods of a class, those in `if` blocks excluded."""
        if index not in self._methods:
            self._methods[index] = tuple(self._find_methods(self.statements[index]))
        return self._methods[index]

    @cached_property
    def outside(self) -> frozenset[str]:
        """Return the names that only imports of other packages bind."""
        return frozenset(
            name
            for name, item in self.imports.items()
            if item.module.partition(".")[0] != self.name.partition(".")[0] and name not in self.bindings
        )

    def decorators(self, index: int) -> Iterator[tuple[str, ...]]:
        """Yield a definition's decorators as dotted chains, such as ("register_adv_est",)."""
        node = self.statements[index].node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                chain = read_attribute_chain(decorator.func if isinstance(decorator, ast.Call) else decorator)
                if chain:
                    yield chain

    @cached_property
    def registering(self) -> dict[str, frozenset[str]]:
        """Map this module's registering decorators to the registries they fill.

        They store into a container of their module, or of their class: `REGISTRY[name] = function`. That of a class is
        named with it, "Registry.items".
        """
        found = {
            statement.node.name: self._find_filled_registries(statement.node)
            for statement in self.statements
            if isinstance(statement.node, (ast.FunctionDef, ast.ClassDef))
        }
        return {name: containers for name, containers in found.items() if containers}

    def _find_filled_registries(self, definition: ast.FunctionDef | ast.ClassDef) -> frozenset[str]:
        found = set()
        for node in ast.walk(definition):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if not isinstance(target, ast.Subscript):
                    continue
                chain = read_attribute_chain(target.value)
                if chain and chain[0] in self.bindings:
                    found.add(chain[0])
                elif len(chain) > 1 and chain[0] == "cls" and isinstance(definition, ast.ClassDef):
                    found.add(f"{definition.name}.{chain[1]}")
        return frozenset(found)

    def absolute(self, node: ast.ImportFrom) -> str:
        """Return the absolute module name of a `from` statement."""
        return resolve_absolute(node, self.name, is_package=self.is_package)

    def _list_imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[Import]:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                yield Import(alias.asname or alias.name, self.absolute(node), alias.name, node.lineno)
            elif alias.asname:
                yield Import(alias.asname, alias.name, None, node.lineno)
            else:
                yield Import(alias.name.partition(".")[0], alias.name, None, node.lineno, dotted="." in alias.name)

    def _make_statement(self, index: int, node: ast.stmt) -> Statement:
        binds: list[str] = []
        imports: list[Import] = []
        effects: list[str | None] = []
        self._collect(node, binds, imports, effects)
        if index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            effects = []
        on = effects[0] if len(set(effects)) == 1 else None
        origins: dict[str, set[tuple[str, str | None]]] = {}
        for item in imports:
            origins.setdefault(item.local, set()).add((item.module, item.name))
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            binds.extend(name for name, ways in origins.items() if len(ways) > 1)
        return Statement(
            index=index,
            line=find_first_line(node) + 1,
            end_line=node.end_lineno or node.lineno,
            binds=tuple(dict.fromkeys(binds)),
            imports=tuple(imports),
            effect=bool(effects),
            effect_on=on,
            node=node,
        )

    def _collect(self, node: ast.stmt, binds: list[str], imports: list[Import], effects: list[str | None]) -> None:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.extend(self._list_imports(node))
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
                for child in list_child_statements(node):
                    self._collect(child, binds, imports, effects)
        elif isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):
                value = node.value.func if isinstance(node.value, ast.Call) else node.value
                chain = read_attribute_chain(value)
                effects.append(chain[0] if chain and len(chain) > 1 else None)
        elif not isinstance(node, ast.Pass):
            effects.append(None)

    def _find_methods(self, statement: Statement) -> Iterator[Method]:
        if not isinstance(statement.node, ast.ClassDef) or self._is_line_shared(statement):
            return
        for position, node in enumerate(statement.node.body):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield Method(node.name, position, find_first_line(node) + 1, node.end_lineno or node.lineno, node)

    def _find_uses(self, statement: Statement, method: int | None) -> Uses:
        part = next((item for item in self.methods(statement.index) if item.position == method), None)
        reading, in_class = self._read(statement, part)
        try:
            names = find_global_names(self._read_text(statement, part), self.path, self._list_bound(statement))
        except SyntaxError as error:  # such as a `nonlocal` of nothing, which the parser lets pass
            error.lineno = statement.line + (error.lineno or 1) - 1
            raise self._explain_invalid(error) from None
        chains = {name: set(found) for name, found in reading.chains.items()}
        for annotation in reading.annotations:
            for name, found in CodeScan(annotation).chains.items():
                names.add(name)
                chains.setdefault(name, set()).update(found)
        outer = set(statement.imports)
        inner = [item for node in reading.imports for item in self._list_imports(node)]
        lazy = tuple(item for item in inner if item not in outer)
        local = {item.local for item in lazy}
        elsewhere = {item.local for item in lazy if item.module.partition(".")[0] != self.name.partition(".")[0]}
        outside = (self.outside | elsewhere) - {item.local for item in lazy if item.local not in elsewhere}
        return Uses(
            names={name: frozenset(chains.get(name, {()})) for name in sorted(names)},
            imports=lazy,
            chains={name: frozenset(chains.get(name, ())) for name in sorted(local)},
            words=reading.words(outside, find_first_argument(part.node) if part is not None else None, in_class),
        )

    def _explain_invalid(self, error: SyntaxError) -> SourceError:
        line = f":{error.lineno}" if error.lineno else ""
        return SourceError(
            f"{self.path}{line}: not valid Python: {error.msg}",
            hint="check that the source is an unmodified release of verl",
        )

    def _read(self, statement: Statement, method: Method | None) -> tuple[CodeScan, frozenset[str]]:
        """Read a part, and names it reads in its class body."""
        if method is not None:
            return CodeScan(method.node), frozenset(CodeScan(*method.node.decorator_list).chains)
        methods = {item.position for item in self.methods(statement.index)}
        if not isinstance(statement.node, ast.ClassDef) or not methods:
            return CodeScan(statement.node), frozenset()
        node = statement.node
        around = [item for position, item in enumerate(node.body) if position not in methods]
        body = CodeScan(*around)
        return CodeScan(*node.decorator_list, *node.bases, *node.keywords, *around), frozenset(body.chains)

    def _list_bound(self, statement: Statement) -> frozenset[str]:
        """Return the names that the body of a class binds."""
        if not isinstance(statement.node, ast.ClassDef):
            return frozenset()
        binds: list[str] = []
        for node in statement.node.body:
            self._collect(node, binds, [], [])
        return frozenset(binds)

    def _read_text(self, statement: Statement, method: Method | None) -> str:
        if self._is_line_shared(statement):
            return ast.unparse(statement.node)
        lines = self.lines[statement.line - 1 : statement.end_line]
        methods = self.methods(statement.index)
        if not methods:
            return "".join(lines)
        start = statement.line
        if method is not None:
            name = getattr(statement.node, "name", "")
            return f"class {name}:\n" + "".join(lines[method.line - start : method.end_line - start + 1])
        gone = {number for item in methods for number in range(item.line - start, item.end_line - start + 1)}
        kept = [line for number, line in enumerate(lines) if number not in gone]
        return "".join(kept) + "\n" + " " * methods[0].node.col_offset + "pass\n"

    def _is_line_shared(self, statement: Statement) -> bool:
        return any(
            other is not statement and (other.line == statement.end_line or other.end_line == statement.line)
            for other in self.statements
        )
