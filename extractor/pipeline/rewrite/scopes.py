"""Find bindings and reads of each scope in an `ast` tree.

libcst's scope metadata answers the same questions and costs ten times as much on a large module.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from extractor.values import readers

_PATH = re.compile(r"[A-Za-z_]")


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

    # names

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.uses.append(Use((node.id,), self.scope, node.lineno))
        else:
            self.bind(node.id)
            if isinstance(node.ctx, ast.Del):
                self.uses.append(Use((node.id,), self.scope, node.lineno))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        names = [node.attr]
        value = node.value
        while isinstance(value, ast.Attribute):
            names.append(value.attr)
            value = value.value
        if isinstance(value, ast.Name):
            self.uses.append(Use((value.id, *reversed(names)), self.scope, value.lineno))
        else:
            self.visit(value)

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

    def visit_Global(self, node: ast.Global) -> None:
        for name in node.names:
            self.scope.shared[name] = "global"
            self.scope.bound.discard(name)
            self.uses.append(Use((name,), self.module, node.lineno))

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            self.scope.shared[name] = "nonlocal"
            self.scope.bound.discard(name)

    # imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.bind(alias.asname or alias.name.partition(".")[0])
        self._site(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name != "*":
                self.bind(alias.asname or alias.name)
        self._site(node)

    def _site(self, node: ast.Import | ast.ImportFrom) -> None:
        nested = node is not self.top_node
        self.imports.append(ImportSite(len(self.imports), node, self.scope, self.checked, self.top, nested))

    def visit_Try(self, node: ast.Try) -> None:
        outer = self.checked
        self.checked = outer or is_import_guard(node)
        for statement in node.body:
            self.visit(statement)
        self.checked = outer
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(part)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.bind(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.bind(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.bind(node.name)

    # scopes

    def annotation(self, node: ast.expr | None) -> None:
        if node is None:
            return
        outer, self.in_annotation = self.in_annotation, True
        self.visit(node)
        self.in_annotation = outer

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        literal = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        outer = self.in_annotation
        self.in_annotation = outer and literal != "Literal"
        self.visit(node.slice)
        self.in_annotation = outer

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        self.visit(node.func)
        for position, argument in enumerate(node.args):
            typed = (name == "cast" and position == 0) or (name == "TypeVar" and position > 0)
            self.annotation(argument) if typed else self.plain(argument)
        for keyword in node.keywords:
            typed = name == "TypeVar" and keyword.arg == "bound"
            self.annotation(keyword.value) if typed else self.plain(keyword.value)

    def plain(self, node: ast.expr) -> None:
        outer, self.in_annotation = self.in_annotation, False
        self.visit(node)
        self.in_annotation = outer

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        self.annotation(node.annotation)
        if node.value is not None:
            self.visit(node.value)

    def arguments(self, node: ast.arguments) -> list[str]:
        """Visit defaults and annotations outside; return the parameters' names."""
        every = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        every += [extra for extra in (node.vararg, node.kwarg) if extra is not None]
        for parameter in every:
            self.annotation(parameter.annotation)
        for default in (*node.defaults, *node.kw_defaults):
            if default is not None:
                self.visit(default)
        return [parameter.arg for parameter in every]

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.bind(node.name)
        for decorator in node.decorator_list:
            self.visit(decorator)
        names = self.arguments(node.args)
        self.annotation(node.returns)
        outer, self.scope = self.scope, Scope("function", self.scope, set(names))
        for statement in node.body:
            self.visit(statement)
        self.scope = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        names = self.arguments(node.args)
        outer, self.scope = self.scope, Scope("function", self.scope, set(names))
        self.visit(node.body)
        self.scope = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bind(node.name)
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        outer, self.scope = self.scope, Scope("class", self.scope)
        for statement in node.body:
            self.visit(statement)
        self.scope = outer

    def _comprehension(self, node: ast.expr, generators: list[ast.comprehension], parts: list[ast.expr]) -> None:
        self.visit(generators[0].iter)
        outer, self.scope = self.scope, Scope("function", self.scope)
        for position, generator in enumerate(generators):
            self.visit(generator.target)
            if position:
                self.visit(generator.iter)
            for condition in generator.ifs:
                self.visit(condition)
        for part in parts:
            self.visit(part)
        self.scope = outer

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node, node.generators, [node.elt])

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node, node.generators, [node.elt])

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node, node.generators, [node.elt])

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node, node.generators, [node.key, node.value])
