"""Find bindings and reads of each scope in an `ast` tree.

libcst's scope metadata answers the same questions and costs ten times as much on a large module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from extractor.pipeline.index.syntax import read_attribute_chain
from extractor.values import readers

_PATH = re.compile(r"[A-Za-z_]")
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(eq=False)
class Scope:
    """A module, class or function (lambdas and comprehensions count as functions)."""

    kind: str
    parent: Scope | None
    bound: set[str] = field(default_factory=set)
    shared: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Use:
    """Records reading a dotted name: `a.b.c` is ("a", "b", "c")."""

    chain: tuple[str, ...]
    scope: Scope
    line: int


@dataclass(frozen=True)
class ImportSite:
    """Holds an import statement, numbered in source order.

    Attributes:
        ordinal: Position among all import statements of the module.
        node: The statement.
        scope: Where it binds its names.
        checked: It stands in the body of a `try` that catches a failing import: its success is the information.
        top: Index of the top-level statement that holds it.
        nested: It is not itself a top-level statement.
    """

    ordinal: int
    node: ast.Import | ast.ImportFrom
    scope: Scope
    checked: bool
    top: int
    nested: bool


def is_import_guard(node: ast.Try) -> bool:
    """Return True where a handler takes what a failing import raises."""
    for handler in node.handlers:
        if handler.type is None:
            return True
        caught = {item.id for item in ast.walk(handler.type) if isinstance(item, ast.Name)}
        if caught & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}:
            return True
    return False


class Walk(ast.NodeVisitor):
    """Collects scopes, reads and imports in source order."""

    def __init__(self) -> None:
        self.module = Scope("module", None)
        self.scope = self.module
        self.uses: list[Use] = []
        self.imports: list[ImportSite] = []
        self.checked = False
        self.top = 0
        self.top_node: ast.stmt | None = None
        self.in_annotation = False

    def run(self, tree: ast.Module) -> None:
        for self.top, node in enumerate(tree.body):
            self.top_node = node
            self.visit(node)

    def _visit_all(self, nodes: Iterable[ast.AST | None], scope: Scope | None = None) -> None:
        """Visit nodes, perhaps in another scope."""
        outer, self.scope = self.scope, scope or self.scope
        for node in nodes:
            if node is not None:
                self.visit(node)
        self.scope = outer

    def _visit_as(self, node: ast.expr | None, *, annotation: bool) -> None:
        """Visit an expression; in an annotation strings are code."""
        outer, self.in_annotation = self.in_annotation, annotation
        self._visit_all([node])
        self.in_annotation = outer

    def generic_visit(self, node: ast.AST) -> None:
        """Visit what a node holds; some bind a name."""
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            self.bind(node.name)
        if isinstance(node, _Comprehension):
            self._comprehension(node)
        else:
            super().generic_visit(node)

    # names

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.bind(node.id)
        if not isinstance(node.ctx, ast.Store):
            self.uses.append(Use((node.id,), self.scope, node.lineno))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain = read_attribute_chain(node)
        if not chain:
            self.generic_visit(node)
            return
        value = node.value
        while isinstance(value, ast.Attribute):
            value = value.value
        self.uses.append(Use(chain, self.scope, value.lineno))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.uses.append(Use((node.target.id,), self.scope, node.lineno))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if self.in_annotation and isinstance(node.value, str) and _PATH.search(node.value):
            inner = readers.parse_expression(node.value)
            if inner is None:
                return
            for item in ast.walk(inner):
                if hasattr(item, "lineno"):
                    item.lineno = node.lineno
            self.visit(inner)

    def bind(self, name: str) -> None:
        declared = self.scope.shared.get(name)
        if declared == "global":
            self.module.bound.add(name)
        elif declared is None:
            self.scope.bound.add(name)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            self.scope.shared[name] = "global" if isinstance(node, ast.Global) else "nonlocal"
            self.scope.bound.discard(name)
            if isinstance(node, ast.Global):
                self.uses.append(Use((name,), self.module, node.lineno))

    visit_Nonlocal = visit_Global

    # imports

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name != "*":
                self.bind(alias.asname or alias.name.partition(".")[0])
        nested = node is not self.top_node
        self.imports.append(ImportSite(len(self.imports), node, self.scope, self.checked, self.top, nested))

    visit_ImportFrom = visit_Import

    def visit_Try(self, node: ast.Try) -> None:
        outer, self.checked = self.checked, self.checked or is_import_guard(node)
        self._visit_all(node.body)
        self.checked = outer
        self._visit_all((*node.handlers, *node.orelse, *node.finalbody))

    # annotations

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        literal = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        self._visit_as(node.slice, annotation=self.in_annotation and literal != "Literal")

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        self.visit(node.func)
        for position, argument in enumerate(node.args):
            typed = (name == "cast" and position == 0) or (name == "TypeVar" and position > 0)
            self._visit_as(argument, annotation=typed)
        for keyword in node.keywords:
            self._visit_as(keyword.value, annotation=name == "TypeVar" and keyword.arg == "bound")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        self._visit_as(node.annotation, annotation=True)
        self._visit_all([node.value])

    # scopes

    def visit_FunctionDef(self, node: _Function) -> None:
        """Visit the body in a new scope; defaults, annotations and decorators outside."""
        named, given = None if isinstance(node, ast.Lambda) else node, node.args
        if named is not None:
            self.bind(named.name)
            self._visit_all(named.decorator_list)
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        every += [extra for extra in (given.vararg, given.kwarg) if extra is not None]
        for annotation in (parameter.annotation for parameter in every):
            self._visit_as(annotation, annotation=True)
        self._visit_all((*given.defaults, *given.kw_defaults))
        if named is not None:
            self._visit_as(named.returns, annotation=True)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        self._visit_all(body, Scope("function", self.scope, {parameter.arg for parameter in every}))

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bind(node.name)
        self._visit_all((*node.decorator_list, *node.bases, *node.keywords))
        self._visit_all(node.body, Scope("class", self.scope))

    def _comprehension(self, node: _Comprehension) -> None:
        inner = Scope("function", self.scope)
        for position, generator in enumerate(node.generators):
            # The first iterable is evaluated outside.
            if not position:
                self.visit(generator.iter)
            self._visit_all([generator.target, *([generator.iter] if position else []), *generator.ifs], inner)
        self._visit_all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], inner)
