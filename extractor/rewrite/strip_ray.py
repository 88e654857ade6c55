"""Take Ray out: remote functions become plain ones, `.remote()` a future on a local executor, `ray.get` its result.

What a name means is decided by libcst's scope metadata, never by its spelling. The shim (`shims/local_executor.py`) has
`submit(function, *args, **kwargs)`, `fetch(future_or_list, timeout=None)` and
`wait(futures, num_returns=1, timeout=None)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import (
    ImportAssignment,
    MetadataWrapper,
    PositionProvider,
    QualifiedNameSource,
    Scope,
    ScopeProvider,
)

from extractor.rewrite.nodes import is_method_call
from extractor.rewrite.problems import CannotRewrite, upstream_line
from extractor.rewrite.scopes import Names
from extractor.rewrite.text import lines_of

SHIM = "shims.local_executor"
_NODE_ADDRESS = ("ray.util.get_node_ip_address", "ray._private.services.get_node_ip_address")
_IDS = {
    "get_node_id": ("socket.gethostname()", "socket"),
    "get_worker_id": ('os.environ.get("RANK", "0")', "os"),
    "get_actor_id": ('os.environ.get("RANK", "0")', "os"),
    "get_task_id": ('os.environ.get("RANK", "0")', "os"),
}
_LOCAL_RANK = 'os.environ.get("LOCAL_RANK", "0")'


@dataclass(frozen=True)
class Stripped:
    """The module without Ray, the import lines it now needs, and what was done, in short phrases."""

    module: cst.Module
    imports: tuple[str, ...]
    notes: tuple[str, ...]


def statements_with_ray(names: Names) -> frozenset[int]:
    """Top-level statements, by index, that may have to do with Ray or with verl's controller of Ray workers.

    Cheap and generous: spelling decides here which statements are looked at, meaning decides what is changed in them.
    Empty where nothing kept reads a name that an import binds to either.
    """
    words: set[str] = set()
    reads = False
    for site in names.imports:
        for alias in site.node.names:
            prefix = f"{site.node.module}." if isinstance(site.node, ast.ImportFrom) else ""
            dotted = prefix + alias.name
            local = alias.asname or alias.name.partition(".")[0]
            uses = names.uses(site.scope, local)
            if dotted.partition(".")[0] == "ray" or dotted.startswith("verl.single_controller"):
                words.add(local)
                reads = reads or bool(uses) or site.scope.kind == "class"
            elif dotted.partition(".")[0] == "verl" and any("remote" in use.chain[1:] for use in uses):
                reads = True
    if not reads:
        return frozenset()
    pattern = re.compile(r"\b(remote|" + "|".join(re.escape(word) for word in sorted(words)) + r")\b")
    lines = lines_of(names.text)
    found = {site.top for site in names.imports}
    for index, node in enumerate(names.tree.body):
        first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))])
        if any(pattern.search(line) for line in lines[first - 1 : node.end_lineno]):
            found.add(index)
    return frozenset(found)


def strip_ray(module: cst.Module, names: Names, package: str, source: str, upstream_path: str) -> Stripped | None:
    """Rewrite every use of Ray that has a local meaning.

    Returns:
        None where nothing in the module uses Ray.

    Raises:
        CannotRewrite: something else resolves to Ray.
    """
    wanted = statements_with_ray(names)
    if not wanted:
        return None
    looked_at: list[int] = []
    top = 0
    for index, statement in enumerate(module.body):
        width = len(statement.body) if isinstance(statement, cst.SimpleStatementLine) else 1
        if any(item in wanted for item in range(top, top + width)):
            looked_at.append(index)
        top += width
    wrapper = MetadataWrapper(module.with_changes(body=[module.body[index] for index in looked_at]), True)
    transform = StripRay(wrapper, names, source, upstream_path)
    body: list[cst.BaseStatement] = list(module.body)
    for index, statement in zip(looked_at, wrapper.module.body, strict=True):
        made = statement.visit(transform)
        body[index] = made if isinstance(made, cst.BaseStatement) else cst.SimpleStatementLine(body=[])
    left = [item for item in body if not (isinstance(item, cst.SimpleStatementLine) and not item.body)]
    stripped = module.with_changes(body=left)
    imports = []
    shim = sorted(name for name in ("fetch", "submit", "wait") if transform.calls.get(name))
    if shim:
        imported = [name if transform.local[name] == name else f"{name} as {transform.local[name]}" for name in shim]
        imports.append(f"from {package}.{SHIM} import {', '.join(imported)}")
    if transform.uses_any:
        imports.append("from typing import Any")
    imports += [f"import {name}" for name in sorted(transform.modules)]
    return Stripped(stripped, tuple(imports), tuple(transform.notes))


def check_no_ray(names: Names, source: str, upstream_path: str) -> None:
    """Refuse a text in which a name still means Ray."""
    for site in names.imports:
        for alias in site.node.names:
            dotted = getattr(site.node, "module", None) or alias.name
            if dotted.partition(".")[0] != "ray" or getattr(site.node, "level", 0):
                continue
            local = alias.asname or alias.name.partition(".")[0]
            for use in names.uses(site.scope, local):
                raise CannotRewrite(
                    upstream_path,
                    upstream_line(source, names.text, use.line),
                    f"`{'.'.join(use.chain)}` is Ray's, and no rule says what it means in one process",
                    hint="replace the definition that uses it by one of ours in the manifest, or cut it with a feature",
                )


class StripRay(cst.CSTTransformer):
    """The rules; `original_node` is what metadata knows, `updated_node` what gets built."""

    def __init__(self, wrapper: MetadataWrapper, names: Names, source: str, upstream_path: str) -> None:
        super().__init__()
        self.wrapper = wrapper
        self.scopes = wrapper.resolve(ScopeProvider)
        self.source = source
        self.upstream_path = upstream_path
        taken = {node.id for node in ast.walk(names.tree) if isinstance(node, ast.Name)} | names.module.bound
        taken |= {node.arg for node in ast.walk(names.tree) if isinstance(node, ast.arg)}
        self.local = {name: name if name not in taken else f"_{name}" for name in ("submit", "fetch", "wait")}
        self.calls: dict[str, int] = {}
        self.modules: set[str] = set()
        self.uses_any = False
        self.notes: dict[str, None] = {}
        self.in_annotation = 0
        self.remote: set[cst.CSTNode] = set()
        self.imports_ray = False
        self.orphans: set[str] = set()
        wrapper.module.visit(_Collect(self))

    # what a node means

    def names_of(self, node: cst.CSTNode) -> set[str]:
        """Fully qualified names of a name or attribute that an import binds."""
        root = node
        while isinstance(root, cst.Attribute):
            root = root.value
        scope = self.scopes.get(node)
        if not isinstance(root, cst.Name) or not isinstance(scope, Scope):
            return set()
        return {item.name for item in scope.get_qualified_names_for(node) if item.source is QualifiedNameSource.IMPORT}

    def ray(self, node: cst.CSTNode) -> str | None:
        """The name of Ray's that a node stands for ("ray.get"), if it does."""
        found = sorted(name for name in self.names_of(node) if name == "ray" or name.startswith("ray."))
        return found[0] if found else None

    def controller(self, node: cst.CSTNode, leaf: str) -> bool:
        """True for `leaf` (Worker, register) of verl's single_controller."""
        return any(
            name.startswith("verl.single_controller") and name.rpartition(".")[2] == leaf
            for name in self.names_of(node)
        )

    def is_remote(self, receiver: cst.BaseExpression) -> bool:
        """True where `receiver.remote(...)` starts a remote function: defined here, or imported from verl."""
        if not isinstance(receiver, (cst.Name, cst.Attribute)):
            return False
        if any(name.partition(".")[0] == "verl" for name in self.names_of(receiver)):
            return True
        scope = self.scopes.get(receiver)
        if not isinstance(receiver, cst.Name) or not isinstance(scope, Scope):
            return False
        nodes = [getattr(assignment, "node", None) for assignment in scope[receiver.value]]
        return bool(nodes) and all(node in self.remote for node in nodes)

    def receiver(self, call: cst.CSTNode) -> cst.BaseExpression | None:
        """`f` of `f.remote(...)` and of `f.options(...).remote(...)`."""
        if not is_method_call(call, "remote"):
            return None
        value = cst.ensure_type(cst.ensure_type(call, cst.Call).func, cst.Attribute).value
        if is_method_call(value, "options"):
            value = cst.ensure_type(cst.ensure_type(value, cst.Call).func, cst.Attribute).value
        return value

    def refuse(self, node: cst.CSTNode, problem: str, hint: str) -> CannotRewrite:
        line = self.wrapper.resolve(PositionProvider)[node].start.line
        place = upstream_line(self.source, self.wrapper.module.code, line)
        return CannotRewrite(self.upstream_path, place, problem, hint=hint)

    def note(self, text: str) -> None:
        self.notes.setdefault(text)

    # definitions

    def leave_Decorator(
        self, original_node: cst.Decorator, updated_node: cst.Decorator
    ) -> cst.Decorator | cst.RemovalSentinel:
        decorator = original_node.decorator
        callee = decorator.func if isinstance(decorator, cst.Call) else decorator
        if self.ray(callee) in ("ray.remote", "ray.method"):
            self.note(f"@{get_full_name_for_node(callee)}")
            return cst.RemoveFromParent()
        if self.controller(callee, "register"):
            self.note("@register(dispatch_mode=...)")
            return cst.RemoveFromParent()
        return updated_node

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        for decorator in node.decorators:
            call = decorator.decorator
            if self.ray(call.func if isinstance(call, cst.Call) else call) == "ray.remote":
                raise self.refuse(
                    node,
                    f"class `{node.name.value}` is a Ray actor",
                    "replace it by a class of ours in the manifest: its methods are called through `.remote()`",
                )

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        keep = [not self.controller(base.value, "Worker") for base in original_node.bases]
        if all(keep):
            return updated_node
        self.note(f"base Worker of {original_node.name.value}")
        bases = [base for base, stays in zip(updated_node.bases, keep, strict=True) if stays]
        if bases:
            bases[-1] = bases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return updated_node.with_changes(bases=bases)
        if updated_node.keywords:
            return updated_node.with_changes(bases=[])
        plain = cst.MaybeSentinel.DEFAULT
        return updated_node.with_changes(bases=[], lpar=plain, rpar=plain)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        """Drop an assignment whose only reader was an expression of Ray's."""
        if not self.orphans:
            return updated_node
        import libcst.matchers as m

        for name in sorted(self.orphans):
            if len(m.findall(updated_node, m.Name(name))) == 1:
                unread = m.SimpleStatementLine(body=[m.Assign(targets=[m.AssignTarget(target=m.Name(name))])])
                without = m.replace(updated_node, unread, cst.RemoveFromParent())
                updated_node = cst.ensure_type(without, cst.FunctionDef)
        return updated_node

    def leave_Expr(self, original_node: cst.Expr, updated_node: cst.Expr) -> cst.Expr | cst.RemovalSentinel:
        call = original_node.value
        if is_method_call(call, "__init__"):
            base = cst.ensure_type(cst.ensure_type(call, cst.Call).func, cst.Attribute).value
            if self.controller(base, "Worker"):
                self.note("Worker.__init__")
                return cst.RemoveFromParent()
        return updated_node

    # calls

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = self.ray(original_node.func)
        receiver = self.receiver(original_node) if name is None else None
        if receiver is not None:
            if self.is_remote(receiver):
                return self._submit(updated_node)
            if self.imports_ray:
                raise self.refuse(
                    original_node,
                    f"cannot tell what `{self._code(original_node.func)}` starts",
                    "replace the definition that calls it by one of ours in the manifest",
                )
        if name is None:
            return self._runtime_id(original_node, updated_node)
        if name == "ray.get":
            return self._get(original_node, updated_node)
        if name == "ray.wait":
            self.note("ray.wait")
            return self._shim("wait", updated_node.args, updated_node)
        if name in ("ray.put", "ray.remote") and len(updated_node.args) == 1 and not updated_node.args[0].keyword:
            self.note(name)
            return updated_node.args[0].value
        if name in _NODE_ADDRESS and not updated_node.args:
            self.note(name)
            self.modules.add("socket")
            return cst.parse_expression("socket.gethostbyname(socket.gethostname())")
        if name == "ray.is_initialized":
            self.note(name)
            return cst.Name("False")
        return updated_node

    def _code(self, node: cst.CSTNode) -> str:
        return self.wrapper.module.code_for_node(node)

    def _shim(self, name: str, args: Sequence[cst.Arg], call: cst.Call) -> cst.Call:
        self.calls[name] = self.calls.get(name, 0) + 1
        return call.with_changes(func=cst.Name(self.local[name]), args=list(args))

    def _submit(self, call: cst.Call) -> cst.Call:
        receiver = self.receiver(call)
        assert receiver is not None
        self.note(f"{self._code(receiver)}.remote()")
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        first = cst.Arg(receiver, comma=comma if call.args else cst.MaybeSentinel.DEFAULT)
        return self._shim("submit", [first, *call.args], call)

    def _get(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        self.note("ray.get")
        inner = self.receiver(original.args[0].value) if len(original.args) == 1 else None
        if inner is not None and self.is_remote(inner):
            self.calls["submit"] -= 1
            made = cst.ensure_type(updated.args[0].value, cst.Call)
            return made.with_changes(func=made.args[0].value, args=made.args[1:])
        args = [
            arg.with_changes(keyword=None) if arg.keyword is not None and arg.keyword.value == "object_refs" else arg
            for arg in updated.args
        ]
        return self._shim("fetch", args, updated)

    def _runtime_id(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        func = original.func
        if isinstance(func, cst.Attribute) and self._is_context(func.value) and func.attr.value in _IDS:
            code, needed = _IDS[func.attr.value]
            self.note(f"runtime context: {func.attr.value}")
            self.modules.add(needed)
            return cst.parse_expression(code)
        return updated

    def _is_context(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Call) and self.ray(node.func) == "ray.get_runtime_context"

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.BaseExpression:
        if self.in_annotation and self.ray(original_node.value) is not None:
            return self._any()
        inner = original_node.value
        if isinstance(inner, cst.Subscript) and isinstance(inner.value, cst.Call):
            func = inner.value.func
            named = isinstance(func, cst.Attribute) and func.attr.value == "get_accelerator_ids"
            if named and self._is_context(cst.ensure_type(func, cst.Attribute).value):
                self.note("runtime context: accelerator ids")
                self.modules.add("os")
                import libcst.matchers as m

                self.orphans |= {item.value for item in m.findall(inner, m.Name()) if isinstance(item, cst.Name)}
                return cst.parse_expression(_LOCAL_RANK)
        return updated_node

    # annotations

    def visit_Annotation(self, node: cst.Annotation) -> None:
        self.in_annotation += 1

    def leave_Annotation(self, original_node: cst.Annotation, updated_node: cst.Annotation) -> cst.Annotation:
        self.in_annotation -= 1
        return updated_node

    def _any(self) -> cst.Name:
        self.uses_any = True
        self.note("annotations became Any")
        return cst.Name("Any")

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if self.in_annotation and self.ray(original_node) is not None:
            return self._any()
        return updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        if self.in_annotation and self.ray(original_node) is not None:
            return self._any()
        return updated_node

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        scope = self.scopes.get(original_node)
        if not self.in_annotation or not isinstance(scope, Scope) or "ray" not in original_node.value:
            return updated_node
        try:
            expression = cst.parse_expression(str(original_node.raw_value))
        except cst.ParserSyntaxError:
            return updated_node
        inner = _AnyInString(scope)
        changed = expression.visit(inner)
        if not inner.found or not isinstance(changed, cst.BaseExpression):
            return updated_node
        self._any()
        code = self._code(changed)
        return updated_node.with_changes(value=f"{updated_node.prefix}{updated_node.quote}{code}{updated_node.quote}")


class _AnyInString(cst.CSTTransformer):
    """Replaces Ray's types inside a string annotation, whose names mean what they mean in the string's scope."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope
        self.found = False

    def _replaced(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        dotted = get_full_name_for_node(original)
        names = self.scope.get_qualified_names_for(dotted) if dotted else set()
        if any(item.source is QualifiedNameSource.IMPORT and item.name.partition(".")[0] == "ray" for item in names):
            self.found = True
            return cst.Name("Any")
        return updated

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self._replaced(original_node, updated_node)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return self._replaced(original_node, updated_node)


class _Collect(cst.CSTVisitor):
    """Finds remote functions, however they are made, and whether the module imports Ray at all."""

    def __init__(self, owner: StripRay) -> None:
        super().__init__()
        self.owner = owner

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        for decorator in node.decorators:
            call = decorator.decorator
            if self.owner.ray(call.func if isinstance(call, cst.Call) else call) == "ray.remote":
                self.owner.remote.add(node)

    def visit_Assign(self, node: cst.Assign) -> None:
        if isinstance(node.value, cst.Call) and self.owner.ray(node.value.func) == "ray.remote":
            for target in node.targets:
                self.owner.remote.add(target.target)

    def _imported(self, node: cst.Import | cst.ImportFrom) -> None:
        scope = self.owner.scopes.get(node)
        if not isinstance(scope, Scope):
            return
        for assignment in scope.assignments:
            if isinstance(assignment, ImportAssignment) and assignment.node is node:
                names = assignment.get_qualified_names_for(assignment.name)
                if any(item.name.partition(".")[0] == "ray" for item in names):
                    self.owner.imports_ray = True

    def visit_Import(self, node: cst.Import) -> None:
        self._imported(node)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        self._imported(node)
