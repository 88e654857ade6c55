"""Apply the manifest's named fixes: small, counted edits of upstream code."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from extractor.pipeline.index.syntax import Span, find_lines, find_span, replace_spans
from extractor.values.errors import CheckFailed
from extractor.values.manifest import Edit, Fix
from extractor.values.readers import parse_python, split_lines

# Expressions that need no parentheses in place of another.
_ATOMS = (
    *(ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant),
    *(ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp),
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def apply_fix(text: str, fix: Fix, rest: str, upstream_path: str) -> tuple[str, bool]:
    """Apply every edit of one fix.

    The counts speak of upstream's whole file: places in code that was not kept need no repair.

    Args:
        text: What was kept of the file.
        fix: The fix.
        rest: The statements of the file that were not kept.
        upstream_path: Its path, for messages.

    Returns:
        The text, and whether anything in it was changed.

    Raises:
        CheckFailed: an edit matches more or fewer places than it says; the fix no longer fits this release.
    """
    changed, found = _apply_fix(text, fix)
    if found != [edit.count for edit in fix.edits]:
        _, elsewhere = _apply_fix(rest, fix)
        for position, edit in enumerate(fix.edits):
            count = found[position] + elsewhere[position]
            if count != edit.count:
                where = f" within {edit.within}" if edit.within else ""
                raise CheckFailed(
                    f"{upstream_path}: fix {fix.id!r}, edit {position + 1} ({edit.op}): `{edit.match}` was found "
                    f"{_say_times(count)}{where}, the manifest says {_say_times(edit.count)}",
                    hint="correct the fix in its manifest (yours: vextract.toml), or drop it if upstream repaired this",
                )
    return changed, any(found)


def _apply_fix(text: str, fix: Fix) -> tuple[str, list[int]]:
    found = []
    for edit in fix.edits:
        if edit.op == "re_export":
            found.append(edit.count)
            continue
        spans = list(
            _find_spans(parse_python(text), _EditMatcher(text, edit), edit.within.split(".") if edit.within else [])
        )
        text = replace_spans(text, spans)
        found.append(len(spans))
    return text, found


def count_matches(source: str, fix: Fix) -> list[int]:
    """Count the matches of each edit of a fix."""
    return _apply_fix(source, fix)[1]


def changes_definition(fix: Fix, definition: str) -> bool:
    """Tell whether a fix edits a definition or replaces its names."""
    edits = replace(fix, edits=tuple(edit for edit in fix.edits if edit.op != "re_export"))
    replaced = {symbol.partition(":")[2] for symbol in fix.replaced}
    used = {node.id for node in ast.walk(ast.parse(definition)) if isinstance(node, ast.Name)}
    return bool(used & replaced) or any(count_matches(definition, edits))


def list_fix_imports(fix: Fix, package: str) -> list[str]:
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


def list_re_exports(fix: Fix, package: str) -> list[str]:
    """Return import lines for names that this module re-exports."""
    wanted = [name.partition(":") for edit in fix.edits if edit.op == "re_export" for name in edit.imports]
    return [f"from {package}.{dotted} import {name} as {name}" for dotted, _, name in wanted]


def _say_times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


class _EditMatcher:
    """Says what becomes of a node by an edit."""

    def __init__(self, text: str, edit: Edit) -> None:
        self.nests = edit.op.endswith("_argument")  # calls in calls count
        self._text = text
        self._edit = edit
        self._new = edit.replacement or ""
        self._expression = _normalize_code(edit.match or "", "eval")
        self._statement = _normalize_code(edit.match or "", "exec")
        self._loop = _normalize_code(f"{edit.match}: pass", "exec")

    def find(self, node: ast.AST, parent: ast.AST, indent: int) -> Span | None:
        """Return the part to replace, and by what; None where the node stays."""
        if self._edit.op == "replace":
            new = self._parenthesize(node).replace("\n", f"\n{' ' * indent}") if self._matches(node) else ""
            return (*find_span(node), new) if new else None
        if self._edit.op == "drop_statement":
            return self._drop(node, parent) if isinstance(node, ast.stmt) and self._is_dropped(node) else None
        if not isinstance(node, ast.Call) or not self._matches(node.func):
            return None
        return self._set_argument(node) if self._edit.op == "set_argument" else self._drop_argument(node)

    def _matches(self, node: ast.AST) -> bool:
        return isinstance(node, ast.expr) and ast.unparse(node) == self._expression

    def _parenthesize(self, node: ast.AST) -> str:
        """Return the replacement, in parentheses where it needs them."""
        made = ast.parse(self._new, mode="eval").body
        bare = isinstance(made, (*_ATOMS, type(node))) or self._new.startswith("(")
        return self._new if bare else f"({self._new})"

    def _drop_argument(self, call: ast.Call) -> Span | None:
        spans = sorted(map(find_span, (*call.args, *call.keywords)))
        gone = [find_span(item) for item in call.keywords if item.arg == self._edit.keyword]
        if not gone:
            return None
        at = spans.index(gone[0])
        if at + 1 < len(spans):
            return spans[at][0], spans[at + 1][0], ""
        return spans[at - 1][1] if at else spans[at][0], spans[at][1], ""

    def _set_argument(self, call: ast.Call) -> Span:
        """Set a keyword argument of a call; add it if missing."""
        for item in call.keywords:
            if item.arg == self._edit.keyword:
                return (*find_span(item.value), self._new)
        made = f"{self._edit.keyword}={self._new}"
        for item in call.keywords:
            if item.arg is None:
                return find_span(item)[0], find_span(item)[0], f"{made}, "
        row, column = find_span(call)[1]
        close = (row, column - 1)
        if not call.args and not call.keywords:
            return close, close, made
        end = max(find_span(item)[1] for item in (*call.args, *call.keywords))
        behind = split_lines(self._text)[end[0] - 1].encode()[end[1] :].lstrip()
        return end, close if behind.startswith(b",") else end, f", {made}"

    def _is_dropped(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.For):
            bare = ast.For(node.target, node.iter, [ast.Pass()], [], lineno=1)
            return ast.unparse(bare) == self._loop
        if isinstance(node, (ast.Expr, ast.Assign)) and self._matches(node.value):
            return True
        return not hasattr(node, "body") and ast.unparse(node) == self._statement

    def _drop(self, node: ast.stmt, parent: ast.AST) -> Span:
        """Drop a statement's lines; an empty block says `pass`."""
        alone = any(block == [node] for block in vars(parent).values())
        return (*find_lines(self._text, node), f"{' ' * node.col_offset}pass\n" if alone else "")


def _find_spans(node: ast.AST, finder: _EditMatcher, within: list[str], indent: int = 0) -> Iterator[Span]:
    """Yield what an edit replaces in a function or class, outermost first."""
    indent = node.col_offset if isinstance(node, ast.stmt) else indent
    for child in ast.iter_child_nodes(node):
        left = within
        if within and isinstance(child, _DEFINITIONS):
            if child.name != within[0]:
                continue
            left = within[1:]
        span = finder.find(child, node, indent) if not left else None
        if span is not None:
            yield span
        if span is None or finder.nests:
            yield from _find_spans(child, finder, left, indent)


def _normalize_code(code: str, mode: str) -> str | None:
    """Return code as `ast.unparse` writes it; None if it does not parse."""
    try:
        return ast.unparse(ast.parse(code.strip(), mode=mode))
    except SyntaxError:
        return None
