"""Rewrite strings that hold dotted paths into verl, such as `_target_`."""

import ast
import re
from dataclasses import dataclass

from extractor.pipeline.index.syntax import Span, find_span, replace_spans
from extractor.pipeline.rewrite.names import Names
from extractor.pipeline.rewrite.problems import find_upstream_line
from extractor.pipeline.slicer import KeptModule, NotKept, Resolver

_QUOTED = re.compile(r"""["']verl\.""")
_PATH = re.compile(r"verl(\.[A-Za-z_]\w*)+")


@dataclass(frozen=True)
class Strings:
    """Holds the paths that were found.

    Attributes:
        text: The module's text with the new paths.
        moved: Path -> new path.
        warnings: One for each path that leads nowhere.
    """

    text: str
    moved: dict[str, str]
    warnings: tuple[str, ...]


def redirect_strings(names: Names, module: KeptModule, resolver: Resolver, package: str) -> Strings:
    """Redirect every string that is exactly a dotted path into verl."""
    if _QUOTED.search(names.text) is None:
        return Strings(names.text, {}, ())
    moved: dict[str, str] = {}
    spans: list[Span] = []
    lost: set[tuple[int, str]] = set()
    prose: set[int] = set()
    for node in ast.walk(names.tree):
        if isinstance(node, ast.Expr):
            prose.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            prose.update(map(id, node.values))
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in prose:
            continue
        if not _PATH.fullmatch(node.value):
            continue
        new = moved.get(node.value) or _lookup(node.value, module.module, resolver, package)
        written = ast.get_source_segment(names.text, node) or ""
        if new is None:
            lost.add((node.lineno, node.value))
        else:
            moved[node.value] = new
            spans.append((*find_span(node), written.replace(node.value, new)))
    warnings = []
    for line, path in sorted(lost):
        place = find_upstream_line(module.source, names.text, line)
        warnings.append(f"{module.upstream_path}:{place}: the string {path!r} names nothing vendored")
    return Strings(replace_spans(names.text, spans), dict(sorted(moved.items())), tuple(warnings))


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
