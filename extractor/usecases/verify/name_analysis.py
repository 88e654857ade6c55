"""Resolve names and imports of files.

It shares no code with pipeline/rewrite/scopes.py on purpose, so that a bug there cannot hide itself.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType

from extractor.values.modules import resolve_absolute

_OF_MODULES = ("annotations", "builtins", "doc", "file", "loader", "name", "package", "path", "spec", "class")
# What Python gives to every module.
_ALWAYS_THERE = {*vars(ModuleType("")), "__file__", "__path__"}
BUILTINS = frozenset(dir(builtins)) | {*(f"__{name}__" for name in _OF_MODULES), "WindowsError"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True)
class ImportedName:
    """Holds what an import statement binds a name to.

    Attributes:
        module: Absolute dotted module.
        name: The imported name; None where the module itself is bound.
        line: Line of the statement.
        top: It runs, unguarded, when the file is imported.
    """

    module: str
    name: str | None
    line: int
    top: bool


@dataclass(frozen=True)
class ImportedUse:
    """A use of a name, with the attributes that follow it.

    Attributes:
        chain: The name and its attributes ("verl_F", "masked_mean").
        imports: The imports that may have bound it; empty where it is bound otherwise.
        bound: False where nothing binds the name, not even Python itself.
        line: Where.
    """

    chain: tuple[str, ...]
    imports: tuple[ImportedName, ...]
    bound: bool
    line: int


@dataclass
class _Scope:
    node: ast.AST
    parent: _Scope | None
    names: dict[str, list[ImportedName | None]] = field(default_factory=dict)
    outside: set[str] = field(default_factory=set)

    def bind(self, name: str | None, what: ImportedName | None = None) -> None:
        if name is not None:
            self.names.setdefault(name, []).append(what)


class Analysis(ast.NodeVisitor):
    """The scopes of one file.

    Args:
        module: Its dotted name, from which relative imports start.
        is_package: It is an `__init__.py`.
    """

    def __init__(self, tree: ast.Module, module: str, *, is_package: bool = False) -> None:
        self._module = module
        self._is_package = is_package
        self._root = self._scope = _Scope(tree, None)
        self._guarded = False
        self.imports: list[ImportedName] = []
        self.stars: list[ImportedName] = []
        self._uses: list[tuple[_Scope, tuple[str, ...], int]] = []
        self._visit_all(tree.body)

    @property
    def names(self) -> frozenset[str]:
        """Return the names bound at the top of the module."""
        return frozenset(self._root.names)

    def uses(self) -> Iterator[ImportedUse]:
        """Yield every use of a name."""
        for scope, chain, line in self._uses:
            bindings = self._lookup(scope, chain[0])
            if bindings is None:
                yield ImportedUse(chain, (), chain[0] in BUILTINS or bool(self.stars), line)
            else:
                yield ImportedUse(chain, tuple(item for item in bindings if item is not None), True, line)

    def _lookup(self, scope: _Scope, name: str) -> list[ImportedName | None] | None:
        current: _Scope | None = scope
        while current is not None:
            hidden = isinstance(current.node, ast.ClassDef) and current is not scope
            if name in current.outside:
                return self._root.names.get(name) or (self._lookup(current.parent, name) if current.parent else None)
            if name in current.names and not hidden:
                return current.names[name]
            current = current.parent
        return None

    def _visit_all(
        self, nodes: Iterable[ast.AST | None], scope: _Scope | None = None, *, guarded: bool = False
    ) -> None:
        before = self._scope, self._guarded
        self._scope, self._guarded = scope or self._scope, guarded or self._guarded
        for node in nodes:
            if node is not None:
                self.visit(node)
        self._scope, self._guarded = before

    def generic_visit(self, node: ast.AST) -> None:
        """Visit what a statement or expression holds; some bind a name."""
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            self._scope.bind(node.name)
        elif isinstance(node, ast.MatchMapping):
            self._scope.bind(node.rest)
        if isinstance(node, _Comprehension):
            self._comprehension(node)
        else:
            self._visit_all(ast.iter_child_nodes(node), guarded=isinstance(node, ast.Try | ast.If))

    def visit_Import(self, node: ast.Import) -> None:
        """Bind modules."""
        top = self._scope is self._root and not self._guarded
        for alias in node.names:
            first = alias.name.partition(".")[0]
            self.imports.append(ImportedName(alias.name, None, node.lineno, top))
            module = alias.name if alias.asname else first
            self._scope.bind(alias.asname or first, ImportedName(module, None, node.lineno, top))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Bind names of a module."""
        module = resolve_absolute(node, self._module, is_package=self._is_package)
        top = self._scope is self._root and not self._guarded
        for alias in node.names:
            found = ImportedName(module, alias.name, node.lineno, top)
            self.imports.append(found)
            if alias.name == "*":
                self.stars.append(found)
            else:
                self._scope.bind(alias.asname or alias.name, found)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit the body in a new scope, the rest outside it."""
        self._scope.bind(node.name)
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self._visit_all(node.body, _Scope(node, self._scope), guarded=True)

    def visit_FunctionDef(self, node: _Function) -> None:
        """Visit the body in a new scope; defaults, annotations, decorators outside."""
        inner, given = _Scope(node, self._scope), node.args
        parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        self._visit_all([*given.defaults, *given.kw_defaults])
        for parameter in parameters:
            if parameter is not None:
                inner.bind(parameter.arg)
                self._visit_all([parameter.annotation])
        if isinstance(node, ast.Lambda):
            self._visit_all([node.body], inner, guarded=True)
        else:
            self._scope.bind(node.name)
            self._visit_all([*node.decorator_list, node.returns])
            self._visit_all(node.body, inner, guarded=True)

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def _comprehension(self, node: _Comprehension) -> None:
        inner = _Scope(node, self._scope)
        for number, generator in enumerate(node.generators):
            # The first iterable is evaluated outside.
            self._visit_all([generator.iter], inner if number else None)
            self._visit_all([generator.target, *generator.ifs], inner)
        self._visit_all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], inner)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Bind in the scope around comprehensions."""
        target = self._scope
        while isinstance(target.node, _Comprehension) and target.parent is not None:
            target = target.parent
        target.bind(node.target.id)
        self.visit(node.value)

    def visit_Global(self, node: ast.Global) -> None:
        """Take names from the top of the module."""
        self._scope.outside.update(node.names)
        for name in node.names:
            self._root.names.setdefault(name, [])

    def visit_Attribute(self, node: ast.Name | ast.Attribute) -> None:
        """Note a use with its attributes, or a binding."""
        chain: list[str] = []
        current: ast.AST = node
        while isinstance(current, ast.Attribute):
            chain.append(current.attr)
            current = current.value
        if not isinstance(current, ast.Name):
            self.visit(current)
        elif isinstance(current.ctx, ast.Load):
            self._uses.append((self._scope, (current.id, *reversed(chain)), node.lineno))
        elif isinstance(current.ctx, ast.Store):
            self._scope.bind(current.id)

    visit_Name = visit_Attribute


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
        found = self.analyse(module)
        if name in found.names or name in _ALWAYS_THERE:
            return True
        return any(self.has(star.module, name, seen | {module}) for star in found.stars)

    def explain_missing(self, item: ImportedName) -> str:
        """Say what an import does not find; empty if it finds all."""
        if item.module not in self.known:
            return f"imports {item.module}, which does not exist"
        if item.name in (None, "*") or self.has(item.module, item.name or ""):
            return ""
        return f"imports {item.name} from {item.module}, which does not define it"
