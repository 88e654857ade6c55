"""Apply the manifest's named fixes: small, counted edits of upstream code."""

import ast
import re
from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from extractor.pipeline.rewrite.nodes import keep_only
from extractor.values.errors import CheckFailed
from extractor.values.manifest import Edit, Fix

_ATOMS = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.SimpleString,
    cst.Integer,
    cst.Float,
    cst.List,
    cst.Dict,
    cst.Set,
    cst.ListComp,
    cst.DictComp,
    cst.SetComp,
)


def apply_fix(module: cst.Module, fix: Fix, rest: str, upstream_path: str) -> tuple[cst.Module, bool]:
    """Apply every edit of one fix.

    The counts speak of upstream's whole file: places in code that was not kept need no repair.

    Args:
        module: What was kept of the file.
        fix: The fix.
        rest: The statements of the file that were not kept.
        upstream_path: Its path, for messages.

    Returns:
        The module, and whether anything in it was changed.

    Raises:
        CheckFailed: an edit matches more or fewer places than it says; the fix no longer fits this release.
    """
    changed, found = _apply_fix(module, fix)
    if found != [edit.count for edit in fix.edits]:
        _, elsewhere = _apply_fix(cst.parse_module(rest), fix)
        for position, edit in enumerate(fix.edits):
            count = found[position] + elsewhere[position]
            if count != edit.count:
                where = f" within {edit.within}" if edit.within else ""
                raise CheckFailed(
                    f"{upstream_path}: fix {fix.id!r}, edit {position + 1} ({edit.op}): `{edit.match}` was found "
                    f"{_say_times(count)}{where}, the manifest says {_say_times(edit.count)}",
                    hint="correct the fix in the release's manifest, or drop it if upstream repaired this",
                )
    return changed, any(found)


def _apply_fix(module: cst.Module, fix: Fix) -> tuple[cst.Module, list[int]]:
    found = []
    for edit in fix.edits:
        if edit.op == "re_export":
            found.append(edit.count)
            continue
        transform = FixTransform(module, edit)
        body: list[cst.BaseStatement] = []
        for statement in module.body:
            made = statement.visit(transform) if transform.concerns(statement) else statement
            if isinstance(made, cst.BaseStatement):
                body.append(made)
        module = module.with_changes(body=body)
        found.append(transform.found)
    return module, found


def count_matches(source: str, fix: Fix) -> list[int]:
    """Count the matches of each edit of a fix."""
    return _apply_fix(cst.parse_module(source), fix)[1]


def touches(fix: Fix, definition: str) -> bool:
    """Tell whether a fix edits a definition or replaces its names."""
    edits = replace(fix, edits=tuple(edit for edit in fix.edits if edit.op != "re_export"))
    replaced = {symbol.partition(":")[2] for symbol in fix.replaced}
    used = {node.id for node in ast.walk(ast.parse(definition)) if isinstance(node, ast.Name)}
    return bool(used & replaced) or any(count_matches(definition, edits))


def fix_imports(fix: Fix, package: str) -> list[str]:
    """Return the import lines that edits ask for.

    "shims.device:empty_cache" is ours, "=os:path" is not.
    """
    lines = []
    for edit in fix.edits:
        for wanted in edit.imports if edit.op != "re_export" else ():
            dotted, _, name = wanted.removeprefix("=").partition(":")
            if not wanted.startswith("="):
                dotted = f"{package}.{dotted}"
            lines.append(f"from {dotted} import {name}" if name else f"import {dotted}")
    return list(dict.fromkeys(lines))


def write_re_exports(fix: Fix, package: str) -> list[str]:
    """Return import lines for names that this module re-exports."""
    wanted = [name.partition(":") for edit in fix.edits if edit.op == "re_export" for name in edit.imports]
    return [f"from {package}.{dotted} import {name} as {name}" for dotted, _, name in wanted]


def _say_times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def shape(code: str, mode: str = "eval") -> str | None:
    """Return code as a syntax tree's text, equal for any layout."""
    try:
        return ast.dump(ast.parse(code.strip(), mode=mode))
    except SyntaxError:
        return None


class FixTransform(cst.CSTTransformer):
    """Applies one edit in a function or class, counting matches."""

    def __init__(self, module: cst.Module, edit: Edit) -> None:
        super().__init__()
        self.edit = edit
        self.code: Callable[[cst.CSTNode], str] = module.code_for_node
        self.found = 0
        self.path: list[str] = []
        match = edit.match or ""
        self.shape = shape(match)
        self.statement_shape = shape(match, "exec")
        self.words = re.findall(r"\w+", match)
        self.pattern: type[cst.CSTNode] | None = type(cst.parse_expression(match)) if self.shape else None
        self.hits: set[int] = set()
        self.labels: set[int] = set()
        self.passed: set[int] = set()

    def concerns(self, statement: cst.BaseStatement) -> bool:
        """Return False if a statement cannot hold a match."""
        if self.edit.within and isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            return statement.name.value == self.edit.within.partition(".")[0]
        return self._has_words(statement)

    def _has_words(self, statement: cst.BaseStatement) -> bool:
        code = self.code(statement)
        return all(word in code for word in self.words)

    @property
    def inside(self) -> bool:
        """Tell whether the walk is in the edit's function or class."""
        wanted = self.edit.within.split(".") if self.edit.within else []
        return self.path[: len(wanted)] == wanted

    def _matches(self, node: cst.CSTNode) -> bool:
        return self.pattern is not None and isinstance(node, self.pattern) and shape(self.code(node)) == self.shape

    # where

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.Import, cst.ImportFrom)):
            return False
        if isinstance(node, cst.Attribute):
            self.labels.add(id(node.attr))
        elif isinstance(node, cst.Arg) and node.keyword is not None:
            self.labels.add(id(node.keyword))
        elif isinstance(node, (cst.Param, cst.FunctionDef, cst.ClassDef)) and node.name is not None:
            self.labels.add(id(node.name))
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self.path.append(node.name.value)
            wanted = self.edit.within.split(".") if self.edit.within else []
            length = min(len(wanted), len(self.path))
            if self.path[:length] != wanted[:length]:
                return False
        elif isinstance(node, cst.BaseStatement) and not self._has_words(node):
            self.passed.add(id(node))  # walking it takes longer than writing it
            return False
        replaces = self.edit.op == "replace" and isinstance(node, cst.BaseExpression) and id(node) not in self.labels
        if replaces and self.inside and self._matches(node):
            self.hits.add(id(node))
            return False
        return super().on_visit(node)

    def on_leave(self, original_node, updated_node):  # type: ignore[no-untyped-def]
        if id(original_node) in self.passed:
            return updated_node
        if id(original_node) in self.hits:
            self.found += 1
            return self._find_replacement(original_node)
        result = super().on_leave(original_node, updated_node)
        if isinstance(original_node, (cst.FunctionDef, cst.ClassDef)):
            self.path.pop()
        return result

    def _find_replacement(self, node: cst.BaseExpression) -> cst.BaseExpression:
        new = cst.parse_expression(self.edit.replacement or "")
        if node.lpar:
            return new.with_changes(lpar=node.lpar, rpar=node.rpar)
        if not isinstance(new, (*_ATOMS, type(node))) and not new.lpar:
            return new.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return new

    # drop_argument, set_argument

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if not self.edit.op.endswith("_argument") or not self.inside or not self._matches(original_node.func):
            return updated_node
        if self.edit.op == "set_argument":
            return self._set_argument(updated_node)
        keep = [arg.keyword is None or arg.keyword.value != self.edit.keyword for arg in updated_node.args]
        if all(keep):
            return updated_node
        self.found += 1
        return updated_node.with_changes(args=keep_only(updated_node.args, keep))

    def _set_argument(self, call: cst.Call) -> cst.Call:
        """Set a keyword argument of a call; add it if missing."""
        self.found += 1
        value = cst.parse_expression(self.edit.replacement or "")
        args = list(call.args)
        for index, arg in enumerate(args):
            if arg.keyword is not None and arg.keyword.value == self.edit.keyword:
                args[index] = arg.with_changes(value=value)
                return call.with_changes(args=args)
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        made = cst.Arg(value, keyword=cst.Name(self.edit.keyword or ""), equal=equal)
        at = next((index for index, arg in enumerate(args) if arg.star == "**"), len(args))
        if at == len(args) and args:
            args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        elif at < len(args):
            made = made.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        return call.with_changes(args=[*args[:at], made, *args[at:]])

    # drop_statement

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.RemovalSentinel:
        if self.edit.op != "drop_statement" or not self.inside:
            return updated_node
        keep = [not self._is_match(small) for small in original_node.body]
        self.found += keep.count(False)
        if all(keep):
            return updated_node
        if not any(keep):
            return cst.RemoveFromParent()
        left = [small for small, stays in zip(updated_node.body, keep, strict=True) if stays]
        left[-1] = left[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(body=left)

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.BaseStatement | cst.RemovalSentinel:
        """Name a loop by its first line."""
        if self.edit.op != "drop_statement" or not self.inside:
            return updated_node
        bare = cst.For(original_node.target, original_node.iter, cst.SimpleStatementSuite([cst.Pass()]))
        if shape(self.code(bare), "exec") != shape(f"{self.edit.match}: pass", "exec"):
            return updated_node
        self.found += 1
        return cst.RemoveFromParent()

    def _is_match(self, small: cst.BaseSmallStatement) -> bool:
        bare = small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) if hasattr(small, "semicolon") else small
        if self.statement_shape is not None and shape(self.code(bare), "exec") == self.statement_shape:
            return True
        if isinstance(small, (cst.Expr, cst.Assign)):
            return self._matches(small.value)
        return False
