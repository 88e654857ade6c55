"""Replace calls of Ray by those of a local executor.

The shim (`shims/local_executor.py`) has `submit(function, *args, **kwargs)`, `fetch(future_or_list, timeout=None)` and
`wait(futures, num_returns=1, timeout=None)`.
"""

from collections.abc import Sequence, Set

import libcst as cst

from extractor.pipeline.rewrite.problems import CannotRewrite, find_upstream_line
from extractor.pipeline.rewrite.ray_annotations import AnnotationRules
from extractor.pipeline.rewrite.ray_meaning import Meaning

_NODE_ADDRESS = ("ray.util.get_node_ip_address", "ray._private.services.get_node_ip_address")
_IDS = {
    "get_node_id": ("socket.gethostname()", "socket"),
    "get_worker_id": ('os.environ.get("RANK", "0")', "os"),
    "get_actor_id": ('os.environ.get("RANK", "0")', "os"),
    "get_task_id": ('os.environ.get("RANK", "0")', "os"),
}
_LOCAL_RANK = 'os.environ.get("LOCAL_RANK", "0")'


class CallRules(AnnotationRules):
    """The rules for calls.

    Args:
        meaning: What nodes mean.
        taken: Names that the module uses.
        source: The module's text upstream, and
        upstream_path: its path, for errors.

    Attributes:
        calls: How often each function of the shim is called.
        local: What the shim's functions are called here.
        modules: Modules that the new code needs.
        orphans: Names whose only reader may have been an expression of Ray's.
    """

    def __init__(self, meaning: Meaning, taken: Set[str], source: str, upstream_path: str) -> None:
        super().__init__(meaning)
        self.local = {name: name if name not in taken else f"_{name}" for name in ("submit", "fetch", "wait")}
        self.calls: dict[str, int] = {}
        self.modules: set[str] = set()
        self.orphans: set[str] = set()
        self._source = source
        self._upstream_path = upstream_path

    def refusal(self, node: cst.CSTNode, problem: str, hint: str) -> CannotRewrite:
        place = find_upstream_line(self._source, self.meaning.text, self.meaning.line(node))
        return CannotRewrite(self._upstream_path, place, problem, hint=hint)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = self.meaning.ray(original_node.func)
        receiver = self.meaning.receiver(original_node) if name is None else None
        if receiver is not None:
            if self.meaning.is_remote(receiver):
                return self._submit(updated_node)
            if self.meaning.imports_ray:
                raise self.refusal(
                    original_node,
                    f"cannot tell what `{self.meaning.code(original_node.func)}` starts",
                    "replace the definition that calls it by one of ours in the manifest",
                )
        if name is None:
            return self._replace_runtime_id(original_node, updated_node)
        if name == "ray.get":
            return self._get(original_node, updated_node)
        if name == "ray.wait":
            self.note("ray.wait")
            return self._make_shim_call("wait", updated_node.args, updated_node)
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

    def _make_shim_call(self, name: str, args: Sequence[cst.Arg], call: cst.Call) -> cst.Call:
        self.calls[name] = self.calls.get(name, 0) + 1
        return call.with_changes(func=cst.Name(self.local[name]), args=list(args))

    def _submit(self, call: cst.Call) -> cst.Call:
        receiver = self.meaning.receiver(call)
        assert receiver is not None
        self.note(f"{self.meaning.code(receiver)}.remote()")
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        first = cst.Arg(receiver, comma=comma if call.args else cst.MaybeSentinel.DEFAULT)
        return self._make_shim_call("submit", [first, *call.args], call)

    def _get(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        self.note("ray.get")
        inner = self.meaning.receiver(original.args[0].value) if len(original.args) == 1 else None
        if inner is not None and self.meaning.is_remote(inner):
            self.calls["submit"] -= 1
            made = cst.ensure_type(updated.args[0].value, cst.Call)
            return made.with_changes(func=made.args[0].value, args=made.args[1:])
        args = [
            arg.with_changes(keyword=None) if arg.keyword is not None and arg.keyword.value == "object_refs" else arg
            for arg in updated.args
        ]
        return self._make_shim_call("fetch", args, updated)

    def _replace_runtime_id(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        func = original.func
        if isinstance(func, cst.Attribute) and self.meaning.is_context(func.value) and func.attr.value in _IDS:
            code, needed = _IDS[func.attr.value]
            self.note(f"runtime context: {func.attr.value}")
            self.modules.add(needed)
            return cst.parse_expression(code)
        return updated

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.BaseExpression:
        made = super().leave_Subscript(original_node, updated_node)
        if made is not updated_node:
            return made
        inner = original_node.value
        if isinstance(inner, cst.Subscript) and isinstance(inner.value, cst.Call):
            func = inner.value.func
            named = isinstance(func, cst.Attribute) and func.attr.value == "get_accelerator_ids"
            if named and self.meaning.is_context(cst.ensure_type(func, cst.Attribute).value):
                self.note("runtime context: accelerator ids")
                self.modules.add("os")
                import libcst.matchers as m  # costs as much as all of libcst, and few modules need it

                self.orphans |= {item.value for item in m.findall(inner, m.Name()) if isinstance(item, cst.Name)}
                return cst.parse_expression(_LOCAL_RANK)
        return updated_node
