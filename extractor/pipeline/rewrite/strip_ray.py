"""Take Ray out of a module.

`ray_meaning` says what is Ray's; `ray_annotations` and `ray_calls` have the rules for these two, and here are those for
definitions.
"""

import ast
import re
from dataclasses import dataclass

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import MetadataWrapper

from extractor.pipeline.index.syntax import find_first_line
from extractor.pipeline.rewrite.names import Names
from extractor.pipeline.rewrite.problems import CannotRewrite, find_upstream_line
from extractor.pipeline.rewrite.ray_calls import CallRules
from extractor.pipeline.rewrite.ray_meaning import Meaning, is_method_call
from extractor.values.errors import SourceError
from extractor.values.readers import split_lines

SHIM = "shims.local_executor"


@dataclass(frozen=True)
class Stripped:
    """Holds a module's text without Ray, its new imports and its changes."""

    text: str
    imports: tuple[str, ...]
    notes: tuple[str, ...]


def find_ray_statements(names: Names) -> frozenset[int]:
    """Return the indices of top-level statements that may concern Ray.

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
    lines = split_lines(names.text)
    found = {site.top for site in names.imports}
    for index, node in enumerate(names.tree.body):
        if any(pattern.search(line) for line in lines[find_first_line(node) : node.end_lineno]):
            found.add(index)
    return frozenset(found)


def strip_ray(names: Names, package: str, source: str, upstream_path: str) -> Stripped | None:
    """Rewrite every use of Ray that has a local meaning.

    Returns:
        None where nothing in the module uses Ray.

    Raises:
        CannotRewrite: something else resolves to Ray.
    """
    wanted = find_ray_statements(names)
    if not wanted:
        return None
    module = _parse(names.text, upstream_path)
    looked_at: list[int] = []
    top = 0
    for index, statement in enumerate(module.body):
        width = len(statement.body) if isinstance(statement, cst.SimpleStatementLine) else 1
        if any(item in wanted for item in range(top, top + width)):
            looked_at.append(index)
        top += width
    wrapper = MetadataWrapper(module.with_changes(body=[module.body[index] for index in looked_at]), True)
    taken = {node.id for node in ast.walk(names.tree) if isinstance(node, ast.Name)} | names.module.bound
    taken |= {node.arg for node in ast.walk(names.tree) if isinstance(node, ast.arg)}
    transform = _StripRay(Meaning(wrapper), taken, source, upstream_path)
    body: list[cst.BaseStatement] = list(module.body)
    for index, statement in zip(looked_at, wrapper.module.body, strict=True):
        made = statement.visit(transform)
        body[index] = made if isinstance(made, cst.BaseStatement) else cst.SimpleStatementLine(body=[])
    left = [item for item in body if not (isinstance(item, cst.SimpleStatementLine) and not item.body)]
    imports = []
    shim = sorted(name for name in ("fetch", "submit", "wait") if transform.calls.get(name))
    if shim:
        imported = [name if transform.local[name] == name else f"{name} as {transform.local[name]}" for name in shim]
        imports.append(f"from {package}.{SHIM} import {', '.join(imported)}")
    if transform.uses_any:
        imports.append("from typing import Any")
    imports += [f"import {name}" for name in sorted(transform.modules)]
    return Stripped(module.with_changes(body=left).code, tuple(imports), tuple(transform.notes))


def _parse(text: str, upstream_path: str) -> cst.Module:
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:  # CPython's parser takes some things that libcst's does not
        raise SourceError(
            f"{upstream_path}: valid Python that cannot be rewritten: {error.message}",
            hint="check that the source is an unmodified release of verl",
        ) from None


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
                    find_upstream_line(source, names.text, use.line),
                    f"`{'.'.join(use.chain)}` is Ray's, and no rule says what it means in one process",
                    hint="drop the root that leads to it, or name what uses it in the manifest: `cuts`, `replacements`",
                )


class _StripRay(CallRules):
    """The rules for definitions, and with them all."""

    def leave_Decorator(
        self, original_node: cst.Decorator, updated_node: cst.Decorator
    ) -> cst.Decorator | cst.RemovalSentinel:
        decorator = original_node.decorator
        callee = decorator.func if isinstance(decorator, cst.Call) else decorator
        if self.meaning.ray(callee) in ("ray.remote", "ray.method"):
            self.note(f"@{get_full_name_for_node(callee)}")
            return cst.RemoveFromParent()
        if self.meaning.controller(callee, "register"):
            self.note("@register(dispatch_mode=...)")
            return cst.RemoveFromParent()
        return updated_node

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        for decorator in node.decorators:
            call = decorator.decorator
            if self.meaning.ray(call.func if isinstance(call, cst.Call) else call) == "ray.remote":
                raise self.refusal(
                    node,
                    f"class `{node.name.value}` is a Ray actor",
                    "replace it by a class of ours in the manifest: its methods are called through `.remote()`",
                )

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        keep = [not self.meaning.controller(base.value, "Worker") for base in original_node.bases]
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
            if self.meaning.controller(base, "Worker"):
                self.note("Worker.__init__")
                return cst.RemoveFromParent()
        return updated_node
