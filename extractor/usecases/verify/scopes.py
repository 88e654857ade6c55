"""Find the import that each name of a file refers to, independently of the rewrite."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

from extractor.values.modules import absolute

_MODULE_NAMES = {
    "__annotations__",
    "__builtins__",
    "__doc__",
    "__file__",
    "__loader__",
    "__name__",
    "__package__",
    "__path__",
    "__spec__",
    "__class__",
    "WindowsError",
}
BUILTINS = frozenset(dir(builtins)) | _MODULE_NAMES
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


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

    def bind(self, name: str, what: ImportedName | None = None) -> None:
        self.names.setdefault(name, []).append(what)


class Analysis:
    """The scopes of one file.

    Args:
        tree: The file.
        module: Its dotted name, from which relative imports start.
        is_package: It is an `__init__.py`.
    """

    def __init__(self, tree: ast.Module, module: str, *, is_package: bool = False) -> None:
        self._module = module
        self._is_package = is_package
        self._root = _Scope(tree, None)
        self.imports: list[ImportedName] = []
        self.stars: list[ImportedName] = []
        self._uses: list[tuple[_Scope, tuple[str, ...], int]] = []
        for statement in tree.body:
            self._visit(statement, self._root, guarded=False)

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

    # Collecting

    def _visit(self, node: ast.AST, scope: _Scope, *, guarded: bool) -> None:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, scope, guarded)
        elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            self._definition(node, scope, guarded)
        elif isinstance(node, _COMPREHENSIONS):
            self._comprehension(node, scope, guarded)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            self._name(node, scope, guarded)
        elif isinstance(node, ast.NamedExpr):
            target = scope
            while isinstance(target.node, _COMPREHENSIONS) and target.parent is not None:
                target = target.parent
            target.bind(node.target.id)
            self._visit(node.value, scope, guarded=guarded)
        else:
            self._other(node, scope, guarded)

    def _other(self, node: ast.AST, scope: _Scope, guarded: bool) -> None:
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            if isinstance(node, ast.Global):
                scope.outside.update(node.names)
                for name in node.names:
                    self._root.names.setdefault(name, [])
            return
        if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            scope.bind(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            scope.bind(node.rest)
        inside = guarded or isinstance(node, (ast.Try, ast.If))
        for child in ast.iter_child_nodes(node):
            self._visit(child, scope, guarded=inside)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: _Scope, guarded: bool) -> None:
        top = scope is self._root and not guarded
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                module = alias.name if alias.asname else alias.name.partition(".")[0]
                self.imports.append(ImportedName(alias.name, None, node.lineno, top))
                scope.bind(bound, ImportedName(module, None, node.lineno, top))
            return
        module = absolute(node, self._module, is_package=self._is_package)
        for alias in node.names:
            found = ImportedName(module, alias.name, node.lineno, top)
            self.imports.append(found)
            if alias.name == "*":
                self.stars.append(found)
            else:
                scope.bind(alias.asname or alias.name, found)

    def _definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef, scope: _Scope, guarded: bool
    ) -> None:
        inner = _Scope(node, scope)
        if isinstance(node, ast.ClassDef):
            scope.bind(node.name)
            outside: list[ast.AST] = [*node.decorator_list, *node.bases, *node.keywords]
            body: list[ast.AST] = list(node.body)
        else:
            arguments = node.args
            outside = [item for item in [*arguments.defaults, *arguments.kw_defaults] if item is not None]
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            for argument in every:
                if argument is not None:
                    inner.bind(argument.arg)
                    outside += [argument.annotation] if argument.annotation else []
            if isinstance(node, ast.Lambda):
                body = [node.body]
            else:
                scope.bind(node.name)
                outside += [*node.decorator_list, *([node.returns] if node.returns else [])]
                body = list(node.body)
        for child in outside:
            self._visit(child, scope, guarded=guarded)
        for child in body:
            self._visit(child, inner, guarded=True)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: _Scope, guarded: bool
    ) -> None:
        inner = _Scope(node, scope)
        for number, generator in enumerate(node.generators):
            # The first iterable is evaluated outside.
            self._visit(generator.iter, scope if number == 0 else inner, guarded=guarded)
            self._visit(generator.target, inner, guarded=guarded)
            for condition in generator.ifs:
                self._visit(condition, inner, guarded=guarded)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for result in results:
            self._visit(result, inner, guarded=guarded)

    def _name(self, node: ast.Name | ast.Attribute, scope: _Scope, guarded: bool) -> None:
        chain: list[str] = []
        current: ast.AST = node
        while isinstance(current, ast.Attribute):
            chain.append(current.attr)
            current = current.value
        if not isinstance(current, ast.Name):
            self._visit(current, scope, guarded=guarded)
        elif isinstance(current.ctx, ast.Load):
            self._uses.append((scope, (current.id, *reversed(chain)), node.lineno))
        elif isinstance(current.ctx, ast.Store):
            scope.bind(current.id)
