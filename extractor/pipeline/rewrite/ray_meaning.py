"""Find names and calls of Ray and verl's Ray controller.

libcst's scope metadata decides it, never the spelling of a name.
"""

import libcst as cst
from libcst.metadata import (
    ImportAssignment,
    MetadataWrapper,
    PositionProvider,
    QualifiedNameSource,
    Scope,
    ScopeProvider,
)


class Meaning:
    """Resolves Ray's names in one module; nodes belong to its wrapper.

    Attributes:
        scopes: The scope of each node.
        remote: The definitions and assignments that make remote functions.
        imports_ray: Whether the module imports Ray at all.
    """

    def __init__(self, wrapper: MetadataWrapper) -> None:
        self._wrapper = wrapper
        self.scopes = wrapper.resolve(ScopeProvider)
        self.remote: set[cst.CSTNode] = set()
        self.imports_ray = False
        wrapper.module.visit(_Collect(self))

    def names_of(self, node: cst.CSTNode) -> set[str]:
        """Return the qualified names of an imported name or attribute."""
        root = node
        while isinstance(root, cst.Attribute):
            root = root.value
        scope = self.scopes.get(node)
        if not isinstance(root, cst.Name) or not isinstance(scope, Scope):
            return set()
        return {item.name for item in scope.get_qualified_names_for(node) if item.source is QualifiedNameSource.IMPORT}

    def ray(self, node: cst.CSTNode) -> str | None:
        """Return the Ray name that a node means ("ray.get"), or None."""
        found = sorted(name for name in self.names_of(node) if name == "ray" or name.startswith("ray."))
        return found[0] if found else None

    def controller(self, node: cst.CSTNode, leaf: str) -> bool:
        """Return True for `leaf` (Worker, register) of verl's single_controller."""
        return any(
            name.startswith("verl.single_controller") and name.rpartition(".")[2] == leaf
            for name in self.names_of(node)
        )

    def is_remote(self, receiver: cst.BaseExpression) -> bool:
        """Return True if `receiver.remote(...)` starts a remote function."""
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
        """Return `f` of `f.remote(...)` and of `f.options(...).remote(...)`."""
        if not is_method_call(call, "remote"):
            return None
        value = cst.ensure_type(cst.ensure_type(call, cst.Call).func, cst.Attribute).value
        if is_method_call(value, "options"):
            value = cst.ensure_type(cst.ensure_type(value, cst.Call).func, cst.Attribute).value
        return value

    def is_context(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Call) and self.ray(node.func) == "ray.get_runtime_context"

    def line(self, node: cst.CSTNode) -> int:
        """Return the line that a node begins in."""
        return self._wrapper.resolve(PositionProvider)[node].start.line

    @property
    def text(self) -> str:
        """Return the module's text."""
        return self._wrapper.module.code

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of a node."""
        return self._wrapper.module.code_for_node(node)


class _Collect(cst.CSTVisitor):
    """Finds remote functions, and whether the module imports Ray."""

    def __init__(self, owner: Meaning) -> None:
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

    def _find_imported(self, node: cst.Import | cst.ImportFrom) -> None:
        scope = self.owner.scopes.get(node)
        if not isinstance(scope, Scope):
            return
        for assignment in scope.assignments:
            if isinstance(assignment, ImportAssignment) and assignment.node is node:
                names = assignment.get_qualified_names_for(assignment.name)
                if any(item.name.partition(".")[0] == "ray" for item in names):
                    self.owner.imports_ray = True

    def visit_Import(self, node: cst.Import) -> None:
        self._find_imported(node)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        self._find_imported(node)


def is_method_call(node: cst.CSTNode, name: str) -> bool:
    """Return True for `anything.name(...)`."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name
