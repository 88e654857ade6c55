"""Add import lines to a module, such as those of our own code for upstream's."""

import ast
from collections.abc import Sequence

from extractor.pipeline.index.syntax import find_first_line, is_docstring, replace_spans, write_import
from extractor.pipeline.slicer import Substitute, Target
from extractor.values.readers import split_lines


def add_imports(text: str, lines: Sequence[str]) -> str:
    """Insert missing import lines after the last import at the top."""
    body = ast.parse(text).body
    present = {ast.unparse(node) for node in body if isinstance(node, (ast.Import, ast.ImportFrom))}
    missing = [line for line in dict.fromkeys(lines) if ast.unparse(ast.parse(line)) not in present]
    if not missing:
        return text
    above = None
    for index, node in enumerate(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (not index and is_docstring(node)):
            above = node
    if above is None:
        at = (find_first_line(body[0]) + 1 if body else len(split_lines(text)) + 1, 0)
        return replace_spans(text, [(at, at, "".join(f"{line}\n" for line in missing))])
    row = above.end_lineno or above.lineno
    at = (row, len(split_lines(text)[row - 1].rstrip("\n").encode()))
    made = "".join(f"\n{line}" for line in missing)
    return replace_spans(text, [(at, at, f"\n{made}" if is_docstring(above) else made)])


def find_home(package: str, target: Target) -> tuple[str, str]:
    """Return the module and the name to import for a target."""
    if target.name is not None:
        return f"{package}.{target.module}", target.name
    parent, _, leaf = f"{package}.{target.module}".rpartition(".")
    return parent, leaf


def substitute_imports(substitutes: tuple[Substitute, ...], package: str) -> list[str]:
    """Return the import lines of substitutes, merged by module."""
    by_module: dict[str, dict[str, None]] = {}
    for substitute in sorted(substitutes, key=lambda item: (item.statement, item.name)):
        home, leaf = find_home(package, substitute.target)
        by_module.setdefault(home, {})[leaf if leaf == substitute.name else f"{leaf} as {substitute.name}"] = None
    return [write_import(f"from {home}", list(names)) for home, names in by_module.items()]
