"""List and rewrite a module's imports."""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from extractor.pipeline.index.syntax import find_span, replace_spans
from extractor.values import readers
from extractor.values.modules import resolve_absolute


@dataclass(frozen=True)
class Name:
    """A name bound by an import statement.

    Attributes:
        module: Absolute.
        name: What is taken from the module; None for the module itself, "*" for all of it.
        local: What it is called in the importing module.
        needed: Whether the module cannot be imported without it: at its top, and not below `try` or a condition.
    """

    module: str
    name: str | None
    local: str
    needed: bool = True

    @property
    def is_dotted(self) -> bool:
        """Tell whether it is `import a.b` without `as`."""
        return self.name is None and "." in self.local

    @property
    def root(self) -> str:
        """Return the package that it is imported from."""
        return self.module.partition(".")[0]


# From a name to where it is now: a module and a name, of which the name is None for a module; None: it stays.
Moved = Callable[[Name], "tuple[str, str | None] | None"]


def list_names(
    node: ast.Import | ast.ImportFrom, module: str, *, is_package: bool, needed: bool = True
) -> Iterator[Name]:
    """Yield the names that an import statement binds."""
    for alias in node.names:
        local = alias.asname or alias.name
        if isinstance(node, ast.Import):
            yield Name(alias.name, None, local, needed)
        else:
            yield Name(resolve_absolute(node, module, is_package=is_package), alias.name, local, needed)


def list_top_names(text: str, module: str, *, is_package: bool) -> Iterator[Name]:
    """Yield names from imports that the module cannot do without."""
    for node, needed in _list_statements(readers.parse_python_cached(text)):
        if needed:
            yield from list_names(node, module, is_package=is_package)


def _list_statements(node: ast.AST, needed: bool = True) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield import statements, each with whether the module needs it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, needed
        elif isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Try, ast.If)
            yield from _list_statements(child, needed and not isinstance(child, inner))


def rewrite_imports(text: str, module: str, moved: Moved, *, is_package: bool = False) -> str:
    """Return a module's text with its imports redirected."""
    tree, rows = readers.parse_python_cached(text), text.split("\n")
    edits: list[tuple[ast.stmt | ast.expr, str]] = []
    chains: dict[str, str] = {}
    for node, needed in _list_statements(tree):
        names = list(list_names(node, module, is_package=is_package, needed=needed))
        places = [moved(name) for name in names]
        if not any(places):
            continue
        lines = []
        for name, place in zip(names, places, strict=True):
            alias = name.local
            if place is not None and name.is_dotted:  # its uses are renamed
                chains[name.local] = alias = name.local.replace(".", "_")
            lines.append(write_import(place or (name.module, name.name), alias, name.name))
        room = rows[node.lineno - 1].encode()[: node.col_offset].decode()
        edits.append((node, "; ".join(lines) if room.strip() else f"\n{room}".join(lines)))
    for use in ast.walk(tree) if chains else ():
        if isinstance(use, ast.Attribute) and (chain := ast.unparse(use)) in chains:
            edits.append((use, chains[chain]))
    return replace_nodes(text, edits)


def replace_nodes(text: str, edits: Iterable[tuple[ast.stmt | ast.expr, str]]) -> str:
    """Return a text with nodes replaced; the lines of those without a new text go."""
    spans = [(*find_span(node), new) for node, new in edits]
    spans = [span if span[2] else ((span[0][0], 0), (span[1][0] + 1, 0), "") for span in spans]
    return replace_spans(text, spans)


def write_import(place: tuple[str, str | None], local: str, original: str | None) -> str:
    """Return the statement that imports a name from its new place."""
    module, name = place
    if original is None:
        return f"import {module}" if local == module else f"import {module} as {local}"
    if name is None:  # a submodule, taken from its package
        module, _, name = module.rpartition(".")
    return f"from {module} import {name}" + ("" if local == name or name == "*" else f" as {local}")
