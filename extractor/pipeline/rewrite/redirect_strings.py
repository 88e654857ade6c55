"""Rewrite strings that hold dotted paths into verl, such as `_target_`."""

import ast
import re
from dataclasses import dataclass

import libcst as cst

from extractor.pipeline.rewrite.names import Names
from extractor.pipeline.rewrite.problems import find_upstream_line
from extractor.pipeline.slicer import KeptModule, NotKept, Resolver

_QUOTED = re.compile(r"""["']verl\.""")
_PATH = re.compile(r"verl(\.[A-Za-z_]\w*)+")


@dataclass(frozen=True)
class Strings:
    """Holds the paths that were found.

    Attributes:
        moved: Path -> new path.
        tops: Indices of the top-level statements that hold such strings.
        warnings: One for each path that leads nowhere.
    """

    moved: dict[str, str]
    tops: frozenset[int]
    warnings: tuple[str, ...]


def find_paths(names: Names, module: KeptModule, resolver: Resolver, package: str) -> Strings:
    """Find every string that is exactly a dotted path into verl."""
    if _QUOTED.search(names.text) is None:
        return Strings({}, frozenset(), ())
    moved: dict[str, str] = {}
    tops: set[int] = set()
    lost: set[tuple[int, str]] = set()
    for top, statement in enumerate(names.tree.body):
        prose: set[int] = set()
        for node in ast.walk(statement):
            if isinstance(node, ast.Expr):
                prose.add(id(node.value))
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in prose:
                continue
            if not _PATH.fullmatch(node.value):
                continue
            new = moved.get(node.value) or _lookup(node.value, module.module, resolver, package)
            if new is None:
                lost.add((node.lineno, node.value))
            else:
                moved[node.value] = new
                tops.add(top)
    warnings = []
    for line, path in sorted(lost):
        place = find_upstream_line(module.source, names.text, line)
        warnings.append(f"{module.upstream_path}:{place}: the string {path!r} names nothing vendored")
    return Strings(dict(sorted(moved.items())), frozenset(tops), tuple(warnings))


def redirect_strings(module: cst.Module, strings: Strings) -> cst.Module:
    """Put the new paths in."""
    transform = RedirectStrings(strings.moved)
    body: list[cst.BaseStatement] = []
    top = 0
    for statement in module.body:
        tops = range(top, top + (len(statement.body) if isinstance(statement, cst.SimpleStatementLine) else 1))
        top = tops.stop
        made = statement.visit(transform) if strings.tops.intersection(tops) else statement
        assert isinstance(made, cst.BaseStatement)
        body.append(made)
    return module.with_changes(body=body)


def _lookup(path: str, importer: str, resolver: Resolver, package: str) -> str | None:
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        imported, name, rest = ".".join(parts[:length]), parts[length], parts[length + 1 :]
        try:
            target = resolver.resolve_import(importer, imported, name)
        except NotKept:
            continue
        if target is not None:
            home = f"{package}.{target.module}"
            return ".".join([home if target.name is None else f"{home}.{target.name}", *rest])
    return None


class RedirectStrings(cst.CSTTransformer):
    """Replaces the found paths, whatever their quotes."""

    def __init__(self, moved: dict[str, str]) -> None:
        super().__init__()
        self.moved = moved

    def visit_Expr(self, node: cst.Expr) -> bool:
        return not isinstance(node.value, (cst.SimpleString, cst.ConcatenatedString))

    def visit_ConcatenatedString(self, node: cst.ConcatenatedString) -> bool:
        return False

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        new = self.moved.get(updated_node.raw_value)
        if new is None or "b" in updated_node.prefix:
            return updated_node
        return updated_node.with_changes(value=f"{updated_node.prefix}{updated_node.quote}{new}{updated_node.quote}")
